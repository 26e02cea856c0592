#include "data/batch_ring.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "data/pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_set.h"
#include "tests/no_threads.h"
#include "tests/sanitized.h"

namespace colonnade::data {
namespace {

TEST(BatchRing, WhatAReaderThrowsIsTheErrorOfItsSample) {
  const auto fill = [](WorkerClock&, int64_t position, absl::Span<uint8_t>, Filled&) {
    if (position == 2) throw std::length_error("too long");
  };
  const auto ring =
      *BatchRing::Create({.threads = 2, .depth = 3, .sample_bytes = 4}, fill, [](int64_t) { return std::string("sample"); });
  const absl::StatusOr<const Batch*> batch = ring->Wait(0, 4);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->samples[2].error.message(), "reading a sample: too long");
  EXPECT_TRUE((*batch)->samples[1].error.ok());
}

// Workers that found no memory for a batch could tell nobody.
TEST(BatchRing, WhereThereIsNoMemoryForABatchTheReaderIsToldAndMayAskForLess) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends where so much memory is asked for";
  const auto fill = [](WorkerClock&, int64_t position, absl::Span<uint8_t> pixels, Filled& filled) {
    filled = {.label = static_cast<int32_t>(position)};
    std::fill(pixels.begin(), pixels.end(), 7);
  };
  const auto ring = *BatchRing::Create({.threads = 2, .depth = 3, .sample_bytes = 1 << 20}, fill,
                                       [](int64_t) { return std::string("sample"); });
  const absl::Status status = ring->Wait(0, int64_t{1} << 35).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("3 batches of 34359738368 samples of 1048576 bytes"));
  const absl::StatusOr<const Batch*> batch = ring->Wait(5, 2);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->samples[1].label, 6);
  EXPECT_THAT((*batch)->pixels, ::testing::AllOf(::testing::SizeIs(2 << 20), ::testing::Each(7)));
}

// Both measure, with threads of their own, and read.
TEST(BatchRing, WhereTheSystemGivesNoThreadThatIsSaid) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends where a thread cannot be started";
  const NoThreads no_threads;
  const auto ring = BatchRing::Create(
      {.threads = 2}, [](WorkerClock&, int64_t, absl::Span<uint8_t>, Filled&) {},
      [](int64_t) { return std::string("sample"); });
  const Moments known{.mean = {0.5}, .std = {0.5}};
  const auto set = std::make_shared<TestSet>(4);
  for (const absl::Status& status :
       {ring.status(), Pipeline::Create(set, {}).status(), Pipeline::Create(set, {.moments = known}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("cannot start a thread to read samples: "));
  }
}

}  // namespace
}  // namespace colonnade::data
