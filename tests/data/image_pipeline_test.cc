#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/decode.h"
#include "data/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"
#include "tests/data/sample_folder.h"

namespace colonnade::data {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;

// A folder of JPEG files of two classes, 20 of each, all of other sizes, one of them grey.
class ImagePipeline : public SampleFolder {
 protected:
  void SetUp() override {
    SampleFolder::SetUp();
    for (int i = 0; i < 40; ++i) {
      Write(i, JpegOf(Pattern(30 + i, 70 - i, i == 7 ? 1 : 3, static_cast<uint32_t>(i))));
    }
  }

  static std::string NameOf(int i) { return absl::StrFormat("images/train/%s/%02d.jpg", i % 2 == 0 ? "cat" : "dog", i); }
  void Write(int i, const std::string& bytes) const { Put(NameOf(i), bytes); }

  std::shared_ptr<const SampleSet> Set() const { return Opened(In("images")); }

  static PipelineOptions Options(int threads) {
    return {.augment = {.height = 24, .width = 24, .cropping = Cropping::kRandomResized, .mirror = true, .hue = 0.1},
            .threads = threads,
            .moments = {{0.5}, {0.25}}};
  }
};

absl::StatusOr<std::vector<uint8_t>> ReadPixels(Pipeline& pipeline, int64_t count, int64_t batch) {
  std::vector<uint8_t> all;
  for (int64_t at = 0; at < count; at += batch) {
    std::vector<uint8_t> pixels(batch * program::ElementCount(pipeline.sample_shape()));
    std::vector<int32_t> labels(batch);
    const absl::Status status = pipeline.Read(at, absl::MakeSpan(pixels), absl::MakeSpan(labels));
    if (!status.ok()) return status;
    all.insert(all.end(), pixels.begin(), pixels.end());
  }
  return all;
}

TEST_F(ImagePipeline, GivesTheSamePixelsWhateverThreadsAndBatches) {
  const auto expected = *Pipeline::Create(Set(), Options(1));
  const std::vector<uint8_t> pixels = *ReadPixels(*expected, 112, 1);
  for (int threads : {2, 4}) {
    for (int64_t batch : {7, 56}) {
      const auto pipeline = *Pipeline::Create(Set(), Options(threads));
      EXPECT_EQ(*ReadPixels(*pipeline, 112, batch), pixels) << threads << " threads, batches of " << batch;
      EXPECT_EQ(pipeline->delivered_hash(), expected->delivered_hash());
    }
  }
  EXPECT_GT(expected->Stages().of(Stage::kDecode), absl::ZeroDuration());
}

// Of files large enough for indices, which the second epoch makes and the third reads by.
TEST_F(ImagePipeline, GivesTheSamePixelsByIndicesAsWithout) {
  constexpr int64_t kFiles = 12, kLarge = 400;
  for (int i = 0; i < kFiles; ++i) {
    Put(absl::StrFormat("large/train/%s/%02d.jpg", i % 2 == 0 ? "cat" : "dog", i),
        JpegOf(Pattern(kLarge, kLarge + i, i == 7 ? 1 : 3, static_cast<uint32_t>(i)), {.progressive = i == 5}));
  }
  const std::shared_ptr<const SampleSet> set = Opened(In("large"));
  for (Cropping cropping :
       {Cropping::kRandomResized, Cropping::kScaledRandom, Cropping::kCentre, Cropping::kWhole, Cropping::kPadded}) {
    PipelineOptions options = Options(3);
    options.augment.cropping = cropping;
    const auto without = *Pipeline::Create(set, options);
    options.jpeg_index_bytes = 1'000'000;
    const auto by_indices = *Pipeline::Create(set, options);
    EXPECT_EQ(*ReadPixels(*by_indices, 3 * kFiles, 4), *ReadPixels(*without, 3 * kFiles, 4));
    const bool sees_parts = cropping != Cropping::kWhole && cropping != Cropping::kPadded;
    EXPECT_EQ(by_indices->jpeg_indices().indices, sees_parts ? kFiles - 1 : 0);
    EXPECT_GE(by_indices->jpeg_indices().decoded, sees_parts ? kFiles : 0);
    EXPECT_EQ(without->jpeg_indices().indices, 0);
  }
}

TEST_F(ImagePipeline, AViewThatReachesBeyondTheImageIsOfTheWholeImage) {
  PipelineOptions options = Options(1);
  options.shuffle = false;
  options.augment = {.height = 30, .width = 70, .cropping = Cropping::kPadded, .pad = 4};
  const auto pipeline = *Pipeline::Create(Set(), options);
  const Image image = *DecodeImage(JpegOf(Pattern(30, 70, 3, 0)), 3);  // of sample 0
  std::vector<uint8_t> pixels(image.pixels.size()), expected(image.pixels.size());
  std::vector<int32_t> label(1);
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    ASSERT_TRUE(pipeline->Read(epoch * 40, absl::MakeSpan(pixels), absl::MakeSpan(label)).ok());
    const View view = DrawView(options.augment, options.seed, epoch, 0, 30, 70);
    Render(options.augment, view, image, view.box, absl::MakeSpan(expected));
    EXPECT_EQ(pixels, expected) << epoch;
  }
}

// Of one value, so that what is not zero is the image.
TEST_F(ImagePipeline, FilesOfAnySizeAreShiftedByPixelsOfTheNetwork) {
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{48, 48}, {32, 32}, {20, 50}, {45, 77}, {300, 1}};
  for (size_t i = 0; i < 40; ++i) {
    const auto& [height, width] = sizes[i % sizes.size()];
    Write(static_cast<int>(i), JpegOf(Uniform(height, width, {200, 200, 200})));
  }
  PipelineOptions options = Options(2);
  options.shuffle = false;
  options.augment = {.height = 32, .width = 24, .cropping = Cropping::kPadded, .pad = 4};
  const auto pipeline = *Pipeline::Create(Set(), options);
  std::vector<uint8_t> pixels(40 * 32 * 24 * 3);
  std::vector<int32_t> labels(40);
  ASSERT_TRUE(pipeline->Read(0, absl::MakeSpan(pixels), absl::MakeSpan(labels)).ok());
  for (int64_t sample = 0; sample < 40; ++sample) {
    const int64_t file = sample < 20 ? 2 * sample : 2 * sample - 39;  // cats first
    const auto& [height, width] = sizes[static_cast<size_t>(file) % sizes.size()];
    const Box box = DrawView(options.augment, options.seed, 0, sample, height, width).box;
    const int64_t down = std::lround(-box.top * 32 / box.height), right = std::lround(-box.left * 24 / box.width);
    for (int64_t i = 0; i < 32 * 24; ++i) {
      const int64_t y = i / 24 - down, x = i % 24 - right;
      const bool is_inside = 0 <= y && y < 32 && 0 <= x && x < 24;
      ASSERT_EQ(pixels[(sample * 32 * 24 + i) * 3], is_inside ? 200 : 0) << height << " x " << width << " at " << i;
    }
  }
}

// A shift by none is what a test sees.
TEST_F(ImagePipeline, ALargeFileIsSeenAsInATestButForItsShift) {
  const std::string file = JpegOf(Pattern(203, 330, 3));
  for (int i = 0; i < 40; ++i) Write(i, file);
  PipelineOptions padded = Options(2), whole = Options(2);
  padded.shuffle = whole.shuffle = false;
  padded.augment = {.height = 32, .width = 32, .cropping = Cropping::kPadded, .pad = 1};
  whole.augment = {.height = 32, .width = 32};
  const std::vector<uint8_t> shifted = *ReadPixels(**Pipeline::Create(Set(), padded), 40, 40);
  const std::vector<uint8_t> seen = *ReadPixels(**Pipeline::Create(Set(), whole), 1, 1);
  int equal = 0;
  for (size_t at = 0; at < shifted.size(); at += seen.size()) {
    equal += std::equal(seen.begin(), seen.end(), shifted.begin() + static_cast<int64_t>(at)) ? 1 : 0;
  }
  EXPECT_THAT(equal, ::testing::AllOf(::testing::Ge(1), ::testing::Le(15)));  // one in nine
}

TEST_F(ImagePipeline, FilesOfOtherKindsUnderTheNameOfAJpegAreImagesOrNamed) {
  Write(4, PngOf(Pattern(30, 40, 3)));
  EXPECT_TRUE(ReadPixels(**Pipeline::Create(Set(), Options(2)), 40, 40).ok());
  for (const auto& [bytes, kind] : {std::pair{"GIF89a\1\0\1", "GIF"}, {"not an image", "text"}, {"", "nothing: 0 bytes"}}) {
    Write(4, bytes);
    const absl::Status status = ReadPixels(**Pipeline::Create(Set(), Options(2)), 40, 40).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("cat/04.jpg: expected JPEG or PNG, found ", kind)));
  }
}

// Nobody ever writes into it.
TEST_F(ImagePipeline, APipeInThePlaceOfAFileIsNamedAtOnce) {
  std::filesystem::remove(In(NameOf(8)));
  ASSERT_EQ(::mkfifo(In(NameOf(8)).c_str(), 0600), 0);
  const absl::Status status = ReadPixels(**Pipeline::Create(Set(), Options(2)), 40, 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cat/08.jpg: expected a file, found a pipe"));
}

TEST_F(ImagePipeline, AFileThatIsCutShortIsNamed) {
  const std::string file = JpegOf(Pattern(39, 61, 3));
  Write(9, file.substr(0, file.size() / 2));
  const auto pipeline = *Pipeline::Create(Set(), Options(2));
  const absl::Status status = ReadPixels(*pipeline, 40, 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("dog/09.jpg: "));
}

TEST_F(ImagePipeline, AFileThatVanishesWhileItIsTrainedWithIsNamed) {
  const auto pipeline = *Pipeline::Create(Set(), Options(2));
  std::filesystem::remove(In(NameOf(12)));
  const absl::Status status = ReadPixels(*pipeline, 40, 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cat/12.jpg"));
}

TEST_F(ImagePipeline, ADamagedFileOfAHundredIsSkippedAndToldByClass) {
  for (int i = 40; i < 100; ++i) Write(i, JpegOf(Pattern(40, 40, 3, static_cast<uint32_t>(i))));
  Write(9, "no image");
  PipelineOptions options = Options(2);
  options.bad_sample = BadSample::kSkip;
  const auto pipeline = *Pipeline::Create(Set(), options);
  ASSERT_TRUE(ReadPixels(*pipeline, 105, 35).ok());
  const std::vector<BadSamples> reports = pipeline->Report();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(ToString(reports[0], 100, pipeline->class_names()),
              HasSubstr("epoch 0: 1 of 100 samples could not be used and were skipped: 1 of class dog; the first: "));
}

// A dark frame of 8 pixels around images of 32: all of it, or the middle alone, where a test sees that.
TEST_F(ImagePipeline, MomentsAreThoseOfWhatATestSeesHoweverTrainingCuts) {
  for (int i = 0; i < 40; ++i) {
    Image image = Uniform(32, 32, {0, 0, 0});
    for (int64_t y = 8; y < 24; ++y) std::fill_n(image.pixels.begin() + (y * 32 + 8) * 3, 16 * 3, i % 2 == 0 ? 51 : 204);
    Write(i, JpegOf(image));
  }
  PipelineOptions options = Options(2);
  options.moments = {};
  for (const Cropping cropping : {Cropping::kRandomResized, Cropping::kScaledRandom, Cropping::kWhole}) {
    options.augment = {.height = 32, .width = 32, .cropping = cropping, .resize = 200};
    options.test_view.reset();
    const auto whole = *Pipeline::Create(Set(), options);
    EXPECT_THAT(whole->moments().mean, Each(DoubleNear(0.5 / 4, 0.01)));
    options.test_view = {.height = 16, .width = 16, .cropping = Cropping::kCentre, .resize = 32};
    const auto middle = *Pipeline::Create(Set(), options);
    EXPECT_THAT(middle->moments().mean, Each(DoubleNear(0.5, 0.01)));
    EXPECT_THAT(middle->moments().std, Each(DoubleNear(0.3, 0.02)));
  }
}

}  // namespace
}  // namespace colonnade::data
