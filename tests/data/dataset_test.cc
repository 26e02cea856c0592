// Data sets from folders, and what the built-in ones contain.

#include "data/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/embedded.h"
#include "data/formats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/whole_file.h"
#include "tests/folder.h"
#include "tests/paths.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;

class DatasetFolder : public Folder {
 protected:
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  // Two images of 1x3 and their labels under the names of `split`.
  void PutPair(const std::string& split) const {
    Put(split + "-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3", 16) + "abcdef");
    Put(split + "-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\2\4\7", 10));
  }
  absl::Status Error(SplitOf split) const { return OpenDataset(path_, split, {}).status(); }
};

TEST_F(DatasetFolder, PlainFilesAreReadUnderTheNamesOfTheirSplit) {
  PutPair("train");
  absl::StatusOr<ImageSet> set = OpenDataset(path_, SplitOf::kTrain, {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->sample_shape, (program::Shape{1, 1, 3}));
  EXPECT_THAT(set->pixels, ::testing::ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  EXPECT_THAT(set->labels, ::testing::ElementsAre(4, 7));
  EXPECT_EQ(set->largest_value, 255);
  EXPECT_EQ(Error(SplitOf::kTest).code(), absl::StatusCode::kNotFound);
  PutPair("t10k");
  EXPECT_TRUE(OpenDataset(path_, SplitOf::kTest, {}).ok());
}

TEST_F(DatasetFolder, PaddedImagesHaveZerosOnEachSide) {
  PutPair("train");
  absl::StatusOr<ImageSet> padded = OpenDataset(path_, SplitOf::kTrain, {.pad = 1});
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_EQ(padded->sample_shape, (program::Shape{1, 3, 5}));
  EXPECT_THAT(padded->pixels, ::testing::ElementsAre(0, 0, 0, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0,  //
                                                     0, 0, 0, 0, 0, 0, 'd', 'e', 'f', 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(padded->name, ::testing::EndsWith(" train padded by 1"));
}

TEST_F(DatasetFolder, GzippedFilesAreReadAlike) {
  for (const EmbeddedFile& file : EmbeddedFiles()) Put(std::string(file.name), std::string(file.bytes));
  for (SplitOf split : {SplitOf::kTrain, SplitOf::kTest}) {
    absl::StatusOr<ImageSet> folder = OpenDataset(path_, split, {}), digits = OpenDataset("digits", split, {});
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ(folder->pixels, digits->pixels);
    EXPECT_EQ(folder->labels, digits->labels);
  }
}

TEST_F(DatasetFolder, AMissingFileIsNamedWithBothItsNames) {
  const absl::Status images = Error(SplitOf::kTest);
  EXPECT_EQ(images.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(images.message()), HasSubstr(path_ + "/t10k-images-idx3-ubyte"));
  EXPECT_THAT(std::string(images.message()), HasSubstr(".gz"));
  PutPair("train");
  std::filesystem::remove(path_ + "/train-labels-idx1-ubyte");
  EXPECT_THAT(std::string(Error(SplitOf::kTrain).message()), HasSubstr("train-labels-idx1-ubyte"));
}

TEST_F(DatasetFolder, WrongContentsNameTheFile) {
  PutPair("train");
  Put("train-images-idx3-ubyte", "not an image file");
  EXPECT_EQ(Error(SplitOf::kTrain).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Error(SplitOf::kTrain).message()), HasSubstr(path_ + "/train-images-idx3-ubyte: expected"));
  PutPair("train");
  const absl::Status label = OpenDataset(path_, SplitOf::kTrain, {.classes = 5}).status();
  EXPECT_EQ(label.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(label.message()), HasSubstr("label of sample 1: expected below 5 classes, found 7"));
}

TEST_F(DatasetFolder, AFolderInAFilesPlaceIsNamed) {
  std::filesystem::create_directory(path_ + "/train-images-idx3-ubyte");
  EXPECT_EQ(Error(SplitOf::kTrain).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DatasetFolder, AFileInTheFoldersPlaceIsNotFound) {
  Put("file", "x");
  EXPECT_EQ(OpenDataset(path_ + "/file", SplitOf::kTrain, {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(Dataset, ANameThatWasMeantIsNamed) {
  EXPECT_THAT(
      std::string(OpenDataset("digts", SplitOf::kTrain, {}).status().message()),
      HasSubstr("data \"digts\": expected digits, synthetic, or a folder with MNIST's files, found no such folder; did you "
                "mean \"digits\"?"));
}

TEST(Digits, HaveEveryClassAndGreyValuesFrom0To16) {
  for (SplitOf split : {SplitOf::kTrain, SplitOf::kTest}) {
    absl::StatusOr<ImageSet> digits = OpenDataset("digits", split, {});
    ASSERT_TRUE(digits.ok()) << digits.status();
    EXPECT_EQ(digits->largest_value, 16);
    EXPECT_EQ(*std::max_element(digits->pixels.begin(), digits->pixels.end()), 16);
    EXPECT_EQ(*std::min_element(digits->pixels.begin(), digits->pixels.end()), 0);
    for (int label = 0; label < 10; ++label) {
      EXPECT_GT(std::count(digits->labels.begin(), digits->labels.end(), label), digits->size() / 15) << label;
    }
    EXPECT_EQ(digits->size(), split == SplitOf::kTrain ? 1437 : 360);
    EXPECT_EQ(digits->sample_shape, (program::Shape{1, 8, 8}));
    EXPECT_EQ(digits->classes, 10);
  }
}

TEST(Digits, EmbeddedFilesAreThoseOfTheSourceTree) {
  ASSERT_EQ(EmbeddedFiles().size(), 4u);
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    const std::string path = std::string(kSourceDir) + "/data/digits/" + std::string(file.name);
    absl::StatusOr<std::string> bytes = ReadWholeFile(path);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(*bytes == file.bytes) << file.name;
  }
}

TEST(Synthetic, HasTheShapeAskedForAndIsTheSameEachTime) {
  const DatasetOptions options{.synthetic_shape = {3, 7, 9}, .synthetic_classes = 5};
  absl::StatusOr<ImageSet> a = OpenDataset("synthetic", SplitOf::kTrain, options);
  absl::StatusOr<ImageSet> b = OpenDataset("synthetic", SplitOf::kTrain, options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->pixels, b->pixels);
  EXPECT_EQ(a->classes, 5);
  EXPECT_EQ(static_cast<int64_t>(a->pixels.size()), a->size() * 3 * 7 * 9);
}

TEST(Synthetic, IsOfImagesAndOfOneClassAtLeast) {
  const auto refused = [](const DatasetOptions& options) {
    const absl::Status status = OpenDataset("synthetic", SplitOf::kTrain, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  for (const program::Shape& shape : std::vector<program::Shape>{{}, {8, 8}, {1, 1, 8, 8}, {1, 8, 0}, {-1, 8, 8}}) {
    for (const int64_t pad : {0, 2}) {
      EXPECT_EQ(refused({.synthetic_shape = shape, .pad = pad}),
                "synthetic_shape: expected images [C,H,W] with extents of at least 1, found " + program::ToString(shape));
    }
  }
  EXPECT_EQ(refused({.synthetic_classes = 0}), "synthetic_classes: expected at least 1, found 0");
}

TEST(Synthetic, TheMeanOfAnImageGrowsWithItsClass) {
  absl::StatusOr<ImageSet> set =
      OpenDataset("synthetic", SplitOf::kTrain, {.synthetic_shape = {1, 16, 16}, .synthetic_classes = 4});
  ASSERT_TRUE(set.ok()) << set.status();
  std::vector<double> sum(4), count(4);
  for (size_t i = 0; i < set->pixels.size(); ++i) {
    sum[set->labels[i / 256]] += set->pixels[i];
    count[set->labels[i / 256]] += 1;
  }
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(sum[c] / count[c], 79.5 + 24 * c, 1) << "class " << c;
}

TEST(Synthetic, EachChannelIsPadded) {
  const DatasetOptions alone{.synthetic_shape = {3, 4, 6}}, padded{.synthetic_shape = {3, 4, 6}, .pad = 2};
  absl::StatusOr<ImageSet> inner = OpenDataset("synthetic", SplitOf::kTest, alone);
  absl::StatusOr<ImageSet> outer = OpenDataset("synthetic", SplitOf::kTest, padded);
  ASSERT_TRUE(inner.ok() && outer.ok());
  ASSERT_EQ(outer->sample_shape, (program::Shape{3, 8, 10}));
  ASSERT_EQ(outer->pixels.size(), outer->labels.size() * 3 * 8 * 10);
  for (size_t i = 0; i < outer->pixels.size(); ++i) {
    const size_t plane = i / 80, y = i / 10 % 8, x = i % 10;
    const bool is_inside = y >= 2 && y < 6 && x >= 2 && x < 8;
    ASSERT_EQ(outer->pixels[i], is_inside ? inner->pixels[(plane * 4 + y - 2) * 6 + x - 2] : 0) << i;
  }
}

TEST(Synthetic, LargeImagesAreFewAndSmallOnesMany) {
  auto images_of = [](int64_t side) {
    return OpenDataset("synthetic", SplitOf::kTest, {.synthetic_shape = {3, side, side}})->labels.size();
  };
  EXPECT_EQ(images_of(8), 512u);
  EXPECT_EQ(images_of(512), 64u);  // 50 MB
  EXPECT_EQ(images_of(4096), 5u);  // 252 MB, where 64 are 3.2 GB
}

TEST(Synthetic, HasTheClassesThatWereAskedForThoughImagesAreFewer) {
  const auto set = OpenSamples("synthetic", SplitOf::kTest, {.synthetic_shape = {3, 512, 512}, .synthetic_classes = 1000});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)->size(), 64);
  EXPECT_EQ(LabelledClasses(**set), 1000);
}

TEST(Synthetic, TestImagesAreOthersThanTrainingImages) {
  absl::StatusOr<ImageSet> train = OpenDataset("synthetic", SplitOf::kTrain, {.synthetic_shape = {1, 4, 4}});
  absl::StatusOr<ImageSet> test = OpenDataset("synthetic", SplitOf::kTest, {.synthetic_shape = {1, 4, 4}});
  ASSERT_TRUE(train.ok() && test.ok());
  EXPECT_FALSE(std::equal(test->pixels.begin(), test->pixels.begin() + 16, train->pixels.begin()));
}

// The file has holes alone; it was read into memory, however large.
TEST_F(DatasetFolder, AFileOfMoreThanAnIdxFileMayHoldIsNotRead) {
  PutPair("train");
  const std::string name = path_ + "/train-images-idx3-ubyte";
  std::filesystem::resize_file(name, int64_t{1} << 33);
  const absl::Status status = Error(SplitOf::kTrain);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(name + ": expected at most 4362076160 bytes, found 8589934592"));
}

}  // namespace
}  // namespace colonnade::data
