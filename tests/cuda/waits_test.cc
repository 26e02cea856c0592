// What the host waits for on the CUDA backend, and for how long.
#include <cstdint>
#include <memory>
#include <utility>

#include "cuda/backend.h"
#include "engine/classification.h"
#include "engine/executor.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "made_backend.h"

namespace colonnade::cuda {
namespace {

TEST(CudaBackend, WhatWasEnqueuedBeforeAnErrorIsWaitedFor) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  Made made = MakeBackend({.devices = 2}, {.has_memory = false, .fail_at = 40});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
  ASSERT_TRUE((*executor)->Enqueue({}).ok());
  const auto enqueued = static_cast<int64_t>(made.calls->noted().size());
  EXPECT_FALSE((*executor)->Collect().ok());
  EXPECT_GE(made.calls->waited_for(), enqueued);
}

// The host gives up after minutes, and does not do so for each stream.
TEST(CudaBackend, AfterAWaitThatDoesNotEndTheHostWaitsOnceMore) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  const auto create = [&](Made& made) { return engine::Executor::Create(program, *made.backend); };
  Made first = MakeBackend({.devices = 2}, {.has_memory = false});
  ASSERT_TRUE(create(first).ok());
  const int waits_of_load = first.calls->waits();
  Made made = MakeBackend({.devices = 2}, {.has_memory = false, .hang_from = waits_of_load});
  {
    auto executor = create(made);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
    ASSERT_TRUE((*executor)->Enqueue({}).ok());
    EXPECT_EQ((*executor)->Collect().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(made.calls->waits(), waits_of_load + 2);
  }
  EXPECT_EQ(made.calls->waits(), waits_of_load + 2);
}

// Calls that note what was not waited for when memory was freed.
class WatchedFrees : public HostCalls {
 public:
  using HostCalls::HostCalls;
  void Free(int gpu, void* data) override {
    if (watches) ++frees;
    if (watches && waited_for() + 1 != static_cast<int64_t>(noted().size())) ++early_frees;
    HostCalls::Free(gpu, data);
  }
  bool watches = false;
  int frees = 0, early_frees = 0;
};

TEST(CudaBackend, AreasMoveWhenAllThatWasEnqueuedHasEnded) {
  const program::Program small = Lowered("two_column", "data", 2, 4), large = Lowered("two_column", "data", 2, 64);
  auto owned = std::make_unique<WatchedFrees>(HostCallsOptions{.has_memory = false});
  WatchedFrees& calls = *owned;
  const auto backend = *MakeCudaBackend({.devices = 2}, std::move(owned));
  const auto executor = engine::Executor::Create(small, *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE((*executor)->NextInput<float>(engine::kImages).ok());
  ASSERT_TRUE((*executor)->Enqueue({}).ok());
  calls.watches = true;
  const auto other = engine::Executor::Create(large, *backend);
  calls.watches = false;
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_GT(calls.frees, 0);
  EXPECT_EQ(calls.early_frees, 0);
  EXPECT_TRUE((*executor)->Collect().ok());
}

}  // namespace
}  // namespace colonnade::cuda
