// A backend whose calls the host runs, and a Program for it.
#ifndef COLONNADE_TESTS_CUDA_MADE_BACKEND_H_
#define COLONNADE_TESTS_CUDA_MADE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::cuda {

inline program::Program Lowered(const std::string& model, const std::string& plan_name, int devices, int64_t batch,
                                double width = 1) {
  const absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(model, {.width = width});
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
inline Made MakeBackend(const CudaOptions& options, const HostCallsOptions& host = {}) {
  auto calls = std::make_unique<HostCalls>(host);
  HostCalls* pointer = calls.get();
  auto backend = MakeCudaBackend(options, std::move(calls));
  EXPECT_TRUE(backend.ok()) << backend.status();
  return {*std::move(backend), pointer};
}

}  // namespace colonnade::cuda

#endif  // COLONNADE_TESTS_CUDA_MADE_BACKEND_H_
