// Which format opens a path, and what sets in memory are as samples.

#include "data/formats.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/embedded.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/sample_folder.h"
#include "tests/shared_data.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class FormatTable : public SampleFolder {};

TEST_F(FormatTable, APathThatIsNotThereIsNotFoundAndAllFormatsAreListed) {
  const absl::Status status = Error(In("nothing"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(status.message()),
      EndsWith("found no such name, file or folder; known are digits, synthetic, IDX, CIFAR, RecordIO, tar, image folder"));
  EXPECT_THAT(std::string(Error("digit").message()),
              HasSubstr("found no such name, file or folder, did you mean \"digits\"?; known are"));
}

TEST_F(FormatTable, AFolderOrFileOfNoFormatIsSaidToBeOne) {
  Put("notes.txt", "hello");
  const absl::Status folder = Error(path_);
  EXPECT_THAT(std::string(folder.message()), HasSubstr("found a folder with none of them"));
  for (const Format& format : Formats()) {
    EXPECT_THAT(std::string(folder.message()), HasSubstr(absl::StrCat(format.name, ": ", format.looks_like)));
  }
  EXPECT_THAT(std::string(Error(In("notes.txt")).message()), HasSubstr("found a file of another kind"));
}

TEST_F(FormatTable, AnImageIsSaidToBeOne) {
  Put("one.PNG", "");
  const absl::Status status = Error(In("one.PNG"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), EndsWith("found a single image; `colonnade predict` takes images"));
}

TEST(MemorySetOfDigits, HasTheImagesOfTheDataSet) {
  const Samples samples = Opened("digits", SplitOf::kTest);
  const ImageSet images = *OpenDataset("digits", SplitOf::kTest, {});
  EXPECT_EQ(samples->name(), "digits test");
  EXPECT_EQ(samples->largest_value(), 16);
  EXPECT_EQ(samples->image_shape(), (program::Shape{1, 8, 8}));
  EXPECT_EQ(LabelsOf(*samples), images.labels);
  EXPECT_EQ(samples->class_names().back(), "9");
  EXPECT_EQ(BytesOf(*samples, 3), std::string(images.pixels.begin() + 3 * 64, images.pixels.begin() + 4 * 64));
}

TEST(MemorySetOfColours, HasChannelsInnermost) {
  const DatasetOptions options{.synthetic_shape = {3, 4, 6}};
  const Samples samples = Opened("synthetic", SplitOf::kTrain, options);
  const ImageSet images = *OpenDataset("synthetic", SplitOf::kTrain, options);
  for (int64_t sample : {int64_t{0}, images.size() - 1}) {
    const std::string pixels = BytesOf(*samples, sample);
    for (int64_t i = 0; i < 3 * 24; ++i) {
      ASSERT_EQ(static_cast<uint8_t>(pixels[i % 24 * 3 + i / 24]), images.pixels[sample * 72 + i]) << i;
    }
  }
}

TEST(MemorySetOfColours, SaysItsShapeAndIsNotEncoded) {
  const Samples samples = Opened("synthetic", SplitOf::kTrain, {.synthetic_shape = {3, 4, 6}});
  std::string room;
  const absl::StatusOr<StoredImage> image = samples->Read(0, room);
  ASSERT_TRUE(image.ok());
  EXPECT_FALSE(image->is_encoded);
  EXPECT_THAT((std::vector<int64_t>{image->height, image->width, image->channels}), ElementsAre(4, 6, 3));
}

TEST(MemorySetOfIdx, HasAllOfFashionMnist) {
  SKIP_WITHOUT_SHARED_DATA("fashion-mnist");
  const Samples train = Opened(SharedData("fashion-mnist")), test = Opened(SharedData("fashion-mnist"), SplitOf::kTest);
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(test->size(), 10000);
  for (const Samples& set : {std::cref(train), std::cref(test)}) {
    const std::vector<int32_t> labels = LabelsOf(*set);
    for (int label = 0; label < 10; ++label) {
      EXPECT_EQ(std::count(labels.begin(), labels.end(), label), set->size() / 10) << label;
    }
  }
  EXPECT_EQ(ChecksumOf(*train), 2726949516u);
  EXPECT_EQ(ChecksumOf(*test), 1023063914u);
}

}  // namespace
}  // namespace colonnade::data
