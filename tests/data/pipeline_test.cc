#include "data/pipeline.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 4;  // of an image of a TestSet

PipelineOptions Options(PipelineOptions options = {}) {
  if (options.augment.height == 0) {
    options.augment.height = options.augment.width = 2;
    options.augment.channels = 1;
  }
  options.moments = {{0}, {1}};
  return options;
}

std::unique_ptr<Pipeline> Open(std::shared_ptr<const SampleSet> set, const PipelineOptions& options) {
  auto pipeline = Pipeline::Create(std::move(set), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

struct Delivered {
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  absl::Status status;

  // By the pixels of a TestSet.
  std::vector<int> samples() const {
    std::vector<int> samples;
    for (size_t at = 0; at < pixels.size(); at += kBytes) samples.push_back(pixels[at] + 256 * pixels[at + 1]);
    return samples;
  }
};

Delivered ReadFrom(Pipeline& pipeline, int64_t position, int64_t count) {
  Delivered delivered{std::vector<uint8_t>(count * program::ElementCount(pipeline.sample_shape())),
                      std::vector<int32_t>(count)};
  delivered.status = pipeline.Read(position, absl::MakeSpan(delivered.pixels), absl::MakeSpan(delivered.labels));
  return delivered;
}

// Positions [0, count) in batches; `count` is a multiple of `batch`.
Delivered ReadInBatches(Pipeline& pipeline, int64_t count, int64_t batch) {
  Delivered all;
  for (int64_t at = 0; at < count && all.status.ok(); at += batch) {
    Delivered part = ReadFrom(pipeline, at, batch);
    all.status = part.status;
    all.pixels.insert(all.pixels.end(), part.pixels.begin(), part.pixels.end());
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

TEST(Pipeline, TakesNoSetButOneOfSamplesWhoseShapeIsAnImages) {
  const auto refused = [](std::shared_ptr<const SampleSet> set) {
    const absl::Status status = Pipeline::Create(set, {}).status(), measured = MeasureMoments(set, {}, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(status, measured);
    return std::string(status.message());
  };
  EXPECT_EQ(refused(nullptr), "expected a set of samples, found none");
  EXPECT_EQ(refused(std::make_shared<TestSet>(0)), "made-up train: expected samples, found none");
  for (const program::Shape& shape : std::vector<program::Shape>{{}, {4}, {2, 2}, {1, 1, 2, 2}, {1, 0, 2}}) {
    EXPECT_EQ(refused(std::make_shared<TestSet>(3, shape)),
              "made-up train: expected images [C,H,W] with extents of at least 1, found " + program::ToString(shape));
  }
}

TEST(Pipeline, AnEpochHasEachSampleOnceWithItsLabel) {
  const auto pipeline = Open(std::make_shared<TestSet>(300), Options({.seed = 5, .threads = 2}));
  std::set<std::vector<int>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Delivered epoch_read = ReadFrom(*pipeline, epoch * 300, 300);
    ASSERT_TRUE(epoch_read.status.ok()) << epoch_read.status;
    std::vector<int> samples = epoch_read.samples();
    for (size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(epoch_read.labels[i], samples[i] % 3);
    orders.insert(samples);
    std::sort(samples.begin(), samples.end());
    for (int i = 0; i < 300; ++i) EXPECT_EQ(samples[i], i);
  }
  EXPECT_EQ(orders.size(), 3u);
  EXPECT_TRUE(pipeline->Report().empty());
}

TEST(Pipeline, WhatIsDeliveredDependsNeitherOnThreadsNorOnBatches) {
  const PipelineOptions base =
      Options({.seed = 3, .augment = {.height = 2, .width = 2, .channels = 1, .cropping = Cropping::kPadded, .pad = 1}});
  const int64_t count = 64 * 7 * 3;  // of epochs of 150
  Delivered expected;
  uint64_t hash = 0;
  for (int threads : {1, 2, 4}) {
    for (int64_t batch : {1, 7, 64}) {
      PipelineOptions options = base;
      options.threads = threads;
      const auto pipeline = Open(std::make_shared<TestSet>(150), options);
      const Delivered found = ReadInBatches(*pipeline, count, batch);
      ASSERT_TRUE(found.status.ok()) << found.status;
      if (expected.pixels.empty()) expected = found;
      if (hash == 0) hash = pipeline->delivered_hash();
      EXPECT_EQ(found.pixels, expected.pixels) << threads << " threads, batches of " << batch;
      EXPECT_EQ(found.labels, expected.labels);
      EXPECT_EQ(pipeline->delivered_hash(), hash);
    }
  }
}

uint64_t HashOfAnEpoch(uint64_t seed, bool shuffle, int64_t pad) {
  PipelineOptions options = Options({.seed = seed, .shuffle = shuffle});
  if (pad > 0) options.augment.cropping = Cropping::kPadded;
  options.augment.pad = pad;
  const auto pipeline = Open(std::make_shared<TestSet>(50), options);
  EXPECT_TRUE(ReadFrom(*pipeline, 0, 50).status.ok());
  return pipeline->delivered_hash();
}

TEST(Pipeline, TheHashSeesSamplesAndHowTheyAreAugmented) {
  const uint64_t plain = HashOfAnEpoch(1, false, 0);
  EXPECT_EQ(HashOfAnEpoch(2, false, 0), plain);  // the seed draws nothing
  const std::set<uint64_t> hashes = {plain, HashOfAnEpoch(1, true, 0), HashOfAnEpoch(2, true, 0), HashOfAnEpoch(1, false, 1),
                                     HashOfAnEpoch(2, false, 1)};
  EXPECT_EQ(hashes.size(), 5u);
}

TEST(Pipeline, AJumpContinuesAtTheNewPositionWithTheSameSamples) {
  const auto whole = Open(std::make_shared<TestSet>(40), Options({.threads = 2}));
  const auto jumping = Open(std::make_shared<TestSet>(40), Options({.threads = 2}));
  const std::vector<int> expected = ReadFrom(*whole, 0, 120).samples();
  for (int64_t at : {50, 60, 0, 110, 30, 31, 0}) {
    const std::vector<int> found = ReadFrom(*jumping, at, 10).samples();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + at)) << at;
  }
}

TEST(Pipeline, ATestSetIsReadOnceInItsOwnOrderAndFilledUpWithPadding) {
  const auto pipeline = Open(std::make_shared<TestSet>(5), Options({.shuffle = false, .once = true}));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_THAT(ReadFrom(*pipeline, 0, 4).samples(), ElementsAre(0, 1, 2, 3));
    const Delivered last = ReadFrom(*pipeline, 4, 4);
    EXPECT_THAT(last.labels, ElementsAre(1, -1, -1, -1));
    EXPECT_THAT(last.samples(), ElementsAre(4, 0, 0, 0));
  }
}

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Pipeline, WorkersAreAheadByNoMoreThanThePrefetchedBatches) {
  const auto set = std::make_shared<TestSet>(100000);
  const auto pipeline = Open(set, Options({.threads = 2, .prefetch = 3}));
  for (int64_t batch = 0; batch < 4; ++batch) {
    ASSERT_TRUE(ReadFrom(*pipeline, batch * 50, 50).status.ok());
    const int64_t expected = (batch + 1 + 3) * 50;  // those that were read, and three batches
    while (set->reads < expected) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(set->reads, expected);
  }
}

TEST(Pipeline, MemoryIsThatOfThePrefetchedBatches) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory that was freed";
  constexpr int64_t kSide = 128, kBatch = 64, kPrefetch = 2, kImage = 3 * kSide * kSide;
  const auto set = std::make_shared<TestSet>(100000, program::Shape{3, kSide, kSide});
  const auto pipeline =
      Open(set, Options({.augment = {.height = kSide, .width = kSide}, .threads = 2, .prefetch = kPrefetch}));
  std::vector<uint8_t> pixels(kBatch * kImage, 1);
  std::vector<int32_t> labels(kBatch);
  ::malloc_trim(0);  // of what tests before have freed
  const int64_t before = ResidentBytes();
  for (int64_t batch = 0; batch < 60; ++batch) {
    ASSERT_TRUE(pipeline->Read(batch * kBatch, absl::MakeSpan(pixels), absl::MakeSpan(labels)).ok());
  }
  const int64_t grown = ResidentBytes() - before;
  EXPECT_GT(grown, kPrefetch * kBatch * kImage / 2);
  EXPECT_LT(grown, kPrefetch * kBatch * kImage + (int64_t{2} << 20));
}

// Of threads that wait for room in the batches.
TEST(Pipeline, StopsAtOnceWhereAllBatchesAreFull) {
  const auto set = std::make_shared<TestSet>(100000);
  auto pipeline = Open(set, Options({.threads = 3, .prefetch = 2}));
  ASSERT_TRUE(ReadFrom(*pipeline, 0, 50).status.ok());
  while (set->reads < 3 * 50) std::this_thread::yield();  // the one that was read, and two
  const auto begin = std::chrono::steady_clock::now();
  pipeline.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(set->reads, 3 * 50);
  EXPECT_EQ(set.use_count(), 1);
}

TEST(Pipeline, ASlowDiskIsWaitedForAndChangesNothing) {
  const auto slow_set = std::make_shared<TestSet>(60);
  slow_set->delay = absl::Milliseconds(2);
  const auto slow = Open(slow_set, Options({.threads = 2})), fast = Open(std::make_shared<TestSet>(60), Options());
  EXPECT_EQ(ReadInBatches(*slow, 120, 10).pixels, ReadInBatches(*fast, 120, 10).pixels);
  EXPECT_GT(slow->Stages().WaitedShare(), 0.5);
}

TEST(Pipeline, StopsCleanlyAtAnyMoment) {
  std::minstd_rand random(1);
  for (int cycle = 0; cycle < Draws(1000); ++cycle) {
    const auto set = std::make_shared<TestSet>(500);
    const int threads = 1 + cycle % 4;
    const auto pipeline = Open(set, Options({.threads = threads, .prefetch = 1 + cycle % 3}));
    const int64_t reads = random() % 4, batch = 1 + random() % 40;
    for (int64_t i = 0; i < reads; ++i) ASSERT_TRUE(ReadFrom(*pipeline, i % 2 * batch, batch).status.ok());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
}

TEST(Pipeline, ASampleAtWhichAThreadHangsIsNamedAndLeftBehind) {
  const auto set = std::make_shared<TestSet>(20);
  set->hanging = 13;
  {
    const auto pipeline = Open(set, Options({.shuffle = false, .threads = 2, .timeout = absl::Seconds(1)}));
    ASSERT_TRUE(ReadFrom(*pipeline, 0, 10).status.ok());
    const absl::Status status = ReadFrom(*pipeline, 10, 10).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("made-up/13: expected it read and decoded within 1s"));
    // Nor can the stream begin anew before the thread is back.
    EXPECT_EQ(ReadFrom(*pipeline, 0, 10).status.code(), absl::StatusCode::kDataLoss);
  }
  set->Unblock();
  while (set.use_count() > 1) std::this_thread::yield();  // the thread that was left behind ends
}

TEST(Pipeline, ASampleAtWhichMeasuringHangsIsNamedAndLeftBehind) {
  const auto set = std::make_shared<TestSet>(100);
  set->hanging = 77;
  PipelineOptions options = Options({.threads = 2, .timeout = absl::Seconds(1)});
  options.moments = {};
  const absl::Status status = Pipeline::Create(set, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("made-up/77: expected it read and decoded within 1s"));
  set->Unblock();
  while (set.use_count() > 1) std::this_thread::yield();
}

TEST(Pipeline, AThreadThatComesBackInTimeIsNoError) {
  const auto set = std::make_shared<TestSet>(20);
  set->hanging = 3;
  const auto pipeline = Open(set, Options({.threads = 2, .timeout = absl::Seconds(60)}));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    set->Unblock();
  });
  EXPECT_TRUE(ReadFrom(*pipeline, 0, 20).status.ok());
  later.join();
}

TEST(Pipeline, SpansThatDoNotFitAndPositionsBelowZeroAreRefused) {
  const auto pipeline = Open(std::make_shared<TestSet>(3), Options());
  std::vector<uint8_t> images(2 * kBytes - 1);
  std::vector<int32_t> labels(2);
  EXPECT_EQ(pipeline->Read(0, absl::MakeSpan(images), absl::MakeSpan(labels)).code(), absl::StatusCode::kFailedPrecondition);
  images.push_back(0);
  EXPECT_EQ(pipeline->Read(-1, absl::MakeSpan(images), absl::MakeSpan(labels)).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(pipeline->Read(0, absl::MakeSpan(images), absl::MakeSpan(labels)).ok());
}

TEST(Pipeline, OptionsThatCannotBeMeantAreRefused) {
  const auto set = std::make_shared<TestSet>(3);
  for (const PipelineOptions& options : {Options({.threads = 0}), Options({.prefetch = 0}), Options({.timeout = {}})}) {
    EXPECT_EQ(Pipeline::Create(set, options).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Pipeline::Create(std::make_shared<TestSet>(0), Options()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Pipeline, SaysWhatItDelivers) {
  const auto pipeline = Open(std::make_shared<TestSet>(12), Options());
  EXPECT_EQ(pipeline->description(), "made-up train: 12 images [1,2,2], 3 classes, shuffled");
}

}  // namespace
}  // namespace colonnade::data
