// A backend whose calls the host runs, and a Program for it.
#ifndef COLONNADE_TESTS_CUDA_MADE_BACKEND_H_
#define COLONNADE_TESTS_CUDA_MADE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "cuda/backend.h"
#include "gtest/gtest.h"
#include "host_calls.h"
#include "layers/graph.h"
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

// Whose images are more than what is always copied.
inline program::Program OfLargeImages(int64_t batch) {
  layers::GraphBuilder net("pooled");
  const auto pooled = net.MaxPool("pool", net.Input("images", {1, 28, 28}), {.kernel = 4, .stride = 4});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", pooled), {.out_features = 10}));
  const auto graph = std::move(net).Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto plan = partition::NamedPlan("single", *graph, {.devices = 1, .global_batch = batch});
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
