#include "data/stage_times.h"

#include <memory>
#include <thread>

#include "data/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"

namespace colonnade::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StageTimes, AFastInputIsOneNumber) {
  const StageTimes times{.images = 100,
                         .spent = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(1), absl::Seconds(9)},
                         .waited = absl::Milliseconds(30),
                         .elapsed = absl::Seconds(1)};
  EXPECT_EQ(InputLine(times), "input: 3 % of the time was spent waiting for it");
}

TEST(StageTimes, OfABottleneckTheStagesAreNamed) {
  const StageTimes times{.images = 100,
                         .spent = {absl::Seconds(1), absl::Seconds(7), absl::Seconds(2), absl::Seconds(90)},
                         .waited = absl::Milliseconds(400),
                         .elapsed = absl::Seconds(1)};
  EXPECT_EQ(
      InputLine(times),
      "input: 40 % of the time was spent waiting for it; input is the bottleneck: of its threads' time decode takes 70 %, "
      "augment takes 20 %, read takes 10 %");
}

TEST(StageTimes, OfATimeAreWhatTheyBecameInIt) {
  const StageTimes before{.images = 10,
                          .spent = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(3), absl::Seconds(4)},
                          .waited = absl::Seconds(5),
                          .elapsed = absl::Seconds(6)};
  const StageTimes after{.images = 30,
                         .spent = {absl::Seconds(2), absl::Seconds(4), absl::Seconds(6), absl::Seconds(8)},
                         .waited = absl::Seconds(7),
                         .elapsed = absl::Seconds(9)};
  const StageTimes between = after - before;
  EXPECT_EQ(between.images, 20);
  EXPECT_EQ(between.spent, before.spent);
  EXPECT_EQ(between.waited, absl::Seconds(2));
  EXPECT_EQ(between.elapsed, absl::Seconds(3));
}

TEST(StageTimes, ReadingSlowlyIsTimeOfReadingAndOfWaiting) {
  const auto set = std::make_shared<TestSet>(100);
  set->delay = absl::Milliseconds(2);
  const PipelineOptions options{
      .augment = {.height = 2, .width = 2, .channels = 1}, .threads = 2, .prefetch = 2, .moments = {{0}, {1}}};
  const auto pipeline = *Pipeline::Create(set, options);
  std::vector<uint8_t> pixels(40);
  std::vector<int32_t> labels(10);
  for (int64_t at = 0; at < 100; at += 10) {
    ASSERT_TRUE(pipeline->Read(at, absl::MakeSpan(pixels), absl::MakeSpan(labels)).ok());
  }
  const StageTimes times = pipeline->Stages();
  EXPECT_GE(times.images, 100);
  EXPECT_GE(times.of(Stage::kRead), 100 * absl::Milliseconds(2));
  EXPECT_LT(times.of(Stage::kAugment), times.of(Stage::kRead) / 4);
  EXPECT_GT(times.WaitedShare(), 0.5);
  EXPECT_THAT(InputLine(times), HasSubstr("bottleneck: of its threads' time read takes"));
}

TEST(StageTimes, AReaderThatComesLateDoesNotWait) {
  const PipelineOptions options{.augment = {.height = 2, .width = 2, .channels = 1}, .moments = {{0}, {1}}};
  const auto pipeline = *Pipeline::Create(std::make_shared<TestSet>(100), options);
  std::vector<uint8_t> pixels(40);
  std::vector<int32_t> labels(10);
  for (int64_t at = 0; at < 50; at += 10) {
    ASSERT_TRUE(pipeline->Read(at, absl::MakeSpan(pixels), absl::MakeSpan(labels)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const StageTimes times = pipeline->Stages();
  EXPECT_LT(times.WaitedShare(), 0.2);
  EXPECT_GT(times.of(Stage::kIdle), absl::Milliseconds(20));
  EXPECT_THAT(InputLine(times), Not(HasSubstr("bottleneck")));
}

}  // namespace
}  // namespace colonnade::data
