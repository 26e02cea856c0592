// What of the CUDA backend needs no GPU and no numbers: memory, errors, and what it gives back.
#include "cuda/backend.h"

#include <memory>

#include "absl/strings/match.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::cuda {
namespace {

program::Program Lowered(const std::string& model, const std::string& plan_name, int devices, int64_t batch) {
  const absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(model, {});
  EXPECT_TRUE(graph.ok());
  const auto plan = partition::NamedPlan(plan_name, *graph, {.devices = devices, .global_batch = batch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto program = partition::Lower(*graph, *plan, {.global_batch = batch});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

struct Made {
  std::unique_ptr<engine::Backend> backend;
  HostCalls* calls = nullptr;  // the backend's
};
Made MakeBackend(const CudaOptions& options, const HostCallsOptions& host = {}) {
  auto calls = std::make_unique<HostCalls>(host);
  HostCalls* pointer = calls.get();
  auto backend = MakeCudaBackend(options, std::move(calls));
  EXPECT_TRUE(backend.ok()) << backend.status();
  return {*std::move(backend), pointer};
}

TEST(CudaBackend, TakesWhatMemoryOfSaysAndGivesItBack) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  Made made = MakeBackend({.devices = 4}, {.gpus = 2});
  const auto memory = made.backend->MemoryOf(program);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(made.calls->allocated_bytes(), 0);
  const int before = made.calls->events_alive();
  {
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    int64_t total = 0, persistent = 0;
    for (int d = 0; d < 4; ++d) {
      EXPECT_EQ((*executor)->loaded().Memory(d).total_bytes(), (*memory)[d].total_bytes());
      total += (*memory)[d].total_bytes();
      persistent += (*memory)[d].persistent_bytes;
    }
    EXPECT_EQ(made.calls->allocated_bytes(), total);
    (*executor).reset();
    EXPECT_EQ(made.calls->allocated_bytes(), persistent);  // shared by Programs to come
  }
  EXPECT_EQ(made.calls->events_alive(), before);
}

TEST(CudaBackend, AStepAllocatesNothing) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  Made made = MakeBackend({.devices = 4});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  const int64_t bytes = made.calls->allocated_bytes();
  const int events = made.calls->events_alive();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*executor)->NextImages().ok());
    ASSERT_TRUE((*executor)->Enqueue({.step = static_cast<uint64_t>(step)}).ok());
    ASSERT_TRUE((*executor)->Collect().ok());
  }
  EXPECT_EQ(made.calls->allocated_bytes(), bytes);
  EXPECT_EQ(made.calls->events_alive(), events);
}

TEST(CudaBackend, CollectingAStepDoesNotWaitForTheNext) {
  const program::Program program = Lowered("two_column", "hybrid", 4, 16);
  for (const bool times : {false, true}) {
    Made made = MakeBackend({.devices = 4, .times_tasks = times});
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok());
    const auto enqueue = [&](uint64_t step) {
      ASSERT_TRUE((*executor)->NextImages().ok());
      ASSERT_TRUE((*executor)->Enqueue({.step = step}).ok());
    };
    enqueue(0);
    for (uint64_t step = 1; step < 4; ++step) {
      const auto before = static_cast<int64_t>(made.calls->noted().size());
      enqueue(step);
      ASSERT_TRUE((*executor)->Collect().ok());
      EXPECT_LT(made.calls->waited_for(), before);
      EXPECT_GE(made.calls->waited_for(), 0);
    }
  }
}

// Images of the next step land while this one computes: on a stream that waits for nothing of this step.
TEST(CudaBackend, TheNextBatchIsFetchedUnderThisStep) {
  const program::Program program = Lowered("lenet", "single", 1, 64);
  Made made = MakeBackend({.devices = 1}, {.has_memory = false});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE((*executor)->NextImages().ok());
    ASSERT_TRUE((*executor)->Enqueue({.step = step}).ok());
  }
  const int input_stream = program::kLaneCount;  // the last that was made
  int fetches = 0;
  for (size_t i = 0; i < made.calls->noted().size(); ++i) {
    const Noted& noted = made.calls->noted()[i];
    if (noted.stream != input_stream) continue;
    if (noted.kind == Noted::Kind::kCall) ++fetches;
    if (noted.kind != Noted::Kind::kWait) continue;
    for (size_t j = 0; j < i; ++j) {
      const Noted& before = made.calls->noted()[j];
      EXPECT_FALSE(before.kind == Noted::Kind::kRecord && before.event == noted.event) << "waits for what has been enqueued";
    }
  }
  EXPECT_EQ(fetches, 2);
}

TEST(CudaBackend, WhatWasEnqueuedBeforeAnErrorIsWaitedFor) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  Made made = MakeBackend({.devices = 2}, {.has_memory = false, .fail_at = 40});
  auto executor = engine::Executor::Create(program, *made.backend);
  ASSERT_TRUE(executor.ok());
  ASSERT_TRUE((*executor)->NextImages().ok());
  ASSERT_TRUE((*executor)->Enqueue({}).ok());
  const auto enqueued = static_cast<int64_t>(made.calls->noted().size());
  EXPECT_FALSE((*executor)->Collect().ok());
  EXPECT_GE(made.calls->waited_for(), enqueued);
}

TEST(CudaBackend, MemoryThatIsMissingLeavesTheBooksInOrder) {
  const program::Program program = Lowered("two_column", "data", 4, 16);
  for (int fail_at = 0; fail_at < 40; fail_at += 3) {
    Made made = MakeBackend({.devices = 4}, {.gpus = 4, .fail_allocation_at = fail_at});
    const auto refused = engine::Executor::Create(program, *made.backend);
    if (refused.ok()) break;
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    // What failed for want of memory can be had later, and a limit of what is needed admits it.
    EXPECT_TRUE(engine::Executor::Create(program, *made.backend).ok());
  }
}

TEST(CudaBackend, NcclWantsAGpuForEachDevice) {
  const auto make = [](int devices, const HostCallsOptions& host) {
    return MakeCudaBackend({.devices = devices, .collectives = Collectives::kNccl}, std::make_unique<HostCalls>(host))
        .status();
  };
  EXPECT_TRUE(make(2, {.gpus = 2, .nccl = true}).ok());
  EXPECT_EQ(make(2, {.gpus = 1, .nccl = true}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(make(2, {.gpus = 2, .nccl = false}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CudaBackend, CollectivesAreByNcclWhereItServesAndIsWanted) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  const auto rank_calls = [&](const CudaOptions& options, int gpus) {
    Made made = MakeBackend(options, {.gpus = gpus, .nccl = true});
    auto executor = engine::Executor::Create(program, *made.backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    EXPECT_TRUE((*executor)->NextImages().ok());
    EXPECT_TRUE((*executor)->Enqueue({}).ok());
    EXPECT_TRUE((*executor)->Collect().ok());
    return made.calls->rank_calls();
  };
  EXPECT_GT(rank_calls({.devices = 2}, 2), 0);
  EXPECT_EQ(rank_calls({.devices = 2}, 1), 0);  // two ranks on one GPU
  EXPECT_EQ(rank_calls({.devices = 2, .collectives = Collectives::kPeer}, 2), 0);
  EXPECT_EQ(rank_calls({.devices = 2, .deterministic = true}, 2), 0);  // all are sums
}

TEST(CudaBackend, ALimitIsRefusedBeforeAnythingIsTaken) {
  const program::Program program = Lowered("two_column", "single", 1, 16);
  Made made = MakeBackend({.devices = 1, .memory_limit_bytes = 1 << 16});
  const auto executor = engine::Executor::Create(program, *made.backend);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(executor.status().message(), "its limit is 65536")) << executor.status();
  EXPECT_EQ(made.calls->allocated_bytes(), 0);
}

TEST(CudaBackend, AFailingCallPoisonsTheProgramAndNamesItsTask) {
  const program::Program program = Lowered("two_column", "data", 2, 16);
  for (int fail_at : {0, 7, 40}) {
    Made made = MakeBackend({.devices = 2}, {.has_memory = false, .fail_at = fail_at});
    auto executor = engine::Executor::Create(program, *made.backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ASSERT_TRUE((*executor)->NextImages().ok());
    ASSERT_TRUE((*executor)->Enqueue({}).ok());
    const absl::Status status = (*executor)->Collect().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << fail_at;
    EXPECT_TRUE(absl::StrContains(status.message(), "task ")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "cudaLaunchKernel: an illegal memory access")) << status;
  }
}

TEST(CudaBackend, ComputesInF32Alone) {
  const absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("two_column", {});
  const auto plan = partition::NamedPlan("single", *graph, {.devices = 1, .global_batch = 4});
  const auto program = partition::Lower(*graph, *plan, {.global_batch = 4, .dtype = program::DType::kF64});
  ASSERT_TRUE(program.ok());
  Made made = MakeBackend({});
  EXPECT_EQ(engine::Executor::Create(*program, *made.backend).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaBackend, DevicesShareGpusInTurn) {
  Made made = MakeBackend({.devices = 5}, {.gpus = 2});
  EXPECT_EQ(made.backend->device_count(), 5);
  EXPECT_EQ(made.calls->stream_count(), 5 * (program::kLaneCount + 1));
  EXPECT_EQ(MakeCudaBackend({.devices = 0}, std::make_unique<HostCalls>()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace colonnade::cuda
