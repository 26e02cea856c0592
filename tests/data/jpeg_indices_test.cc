// Which indices are made and kept.

#include "data/jpeg_indices.h"

#include <string>
#include <thread>
#include <vector>

#include "data/jpeg_index.h"
#include "gtest/gtest.h"
#include "tests/data/image_files.h"

namespace colonnade::data {
namespace {

constexpr int64_t kHeight = 375, kWidth = 400, kPixels = kHeight * kWidth, kMegabyte = 1'000'000;
static_assert(kPixels == JpegIndices::kLeastPixels);

const std::string& Photograph() {
  static const auto& file = *new std::string(JpegOf(Pattern(kHeight, kWidth, 3)));
  return file;
}

TEST(JpegIndices, AreMadeWhenASampleIsMetForTheSecondTime) {
  JpegIndices indices(3, kMegabyte);
  for (int64_t sample : {0, 1, 2}) EXPECT_EQ(indices.Of(sample, Photograph(), kPixels), nullptr);
  EXPECT_EQ(indices.kept().indices, 0);
  const auto second = indices.Of(1, Photograph(), kPixels);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(indices.Of(1, Photograph(), kPixels), second);  // made once
  EXPECT_EQ(indices.kept().indices, 1);
  EXPECT_GE(indices.kept().bytes, second->bytes());
}

TEST(JpegIndices, AreNotMadeOfSmallImages) {
  JpegIndices indices(1, kMegabyte);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(indices.Of(0, Photograph(), kPixels - 1), nullptr);
}

TEST(JpegIndices, TakeNoMoreMemoryThanTheyMay) {
  JpegIndices all(100, kMegabyte);
  const auto read_twice = [](JpegIndices& indices) {
    for (int i = 0; i < 200; ++i) (void)indices.Of(i % 100, Photograph(), kPixels);
    return indices.kept();
  };
  const JpegIndices::Kept whole = read_twice(all);
  EXPECT_EQ(whole.indices, 100);
  JpegIndices exactly(100, whole.bytes), some(100, whole.bytes - 1), few(100, whole.bytes / 2), none(100, 0);
  EXPECT_EQ(read_twice(exactly).indices, 100);
  EXPECT_EQ(read_twice(some).indices, 99);
  EXPECT_EQ(read_twice(few).indices, 50);
  EXPECT_LE(few.kept().bytes, whole.bytes / 2);
  EXPECT_NE(few.Of(0, Photograph(), kPixels), nullptr);  // what there is stays
  EXPECT_EQ(few.Of(99, Photograph(), kPixels), nullptr);
  EXPECT_EQ(read_twice(none).indices, 0);
}

TEST(JpegIndices, OneThatIsTooLargeIsLeftOutAlone) {
  const std::string large = JpegOf(Pattern(4 * kHeight, 4 * kWidth, 3));
  JpegIndices indices(3, JpegIndex::Of(large)->bytes() / 2);
  for (int i = 0; i < 2; ++i) (void)indices.Of(0, large, 16 * kPixels);
  for (int i = 0; i < 2; ++i) (void)indices.Of(1, Photograph(), kPixels);
  EXPECT_EQ(indices.kept().indices, 1);
  EXPECT_EQ(indices.Of(0, Photograph(), kPixels), nullptr);  // not looked at again
}

TEST(JpegIndices, OfAFileThatHasNoneIsRemembered) {
  const std::string progressive = JpegOf(Pattern(kHeight, kWidth, 3), {.progressive = true});
  JpegIndices indices(1, kMegabyte);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(indices.Of(0, progressive, kPixels), nullptr);
  EXPECT_EQ(indices.kept().indices, 0);
  EXPECT_GT(indices.kept().bytes, 0);
  EXPECT_EQ(indices.Of(0, Photograph(), kPixels), nullptr);  // not looked at again
}

TEST(JpegIndices, AreMadeByManyThreadsAtOnce) {
  JpegIndices indices(8, kMegabyte);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 24; ++i) (void)indices.Of(i % 8, Photograph(), kPixels);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(indices.kept().indices, 8);
}

}  // namespace
}  // namespace colonnade::data
