// A network of one's own, trained on four virtual devices: two replicas of two columns. The part between the two marks
// stands in README.md, too.

#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "engine/executor.h"
#include "engine/state.h"
#include "engine/trainer.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

using namespace colonnade;  // NOLINT: an example

// README begins
constexpr int kDevices = 4;
constexpr int64_t kBatch = 32;  // over all devices

absl::Status TrainOwnNetwork() {
  layers::GraphBuilder net("own");
  auto x = net.Input("images", {1, 8, 8});
  x = net.Relu("relu1", net.Conv2d("conv1", x, {.out_channels = 32, .kernel = 3, .pad = 1}));
  x = net.MaxPool("pool1", x, {.kernel = 2});
  x = net.Relu("relu2", net.Conv2d("conv2", x, {.out_channels = 64, .kernel = 3, .pad = 1, .groups = 2}));
  x = net.FullyConnected("fc3", net.Flatten("flatten", x), {.out_features = 10});
  net.SoftmaxCrossEntropy("loss", x);
  ASSIGN_OR_RETURN(layers::LayerGraph graph, std::move(net).Build());

  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> digits, data::OpenSamples("digits", data::SplitOf::kTrain, {}));
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> stream, data::Pipeline::Create(std::move(digits), {}));

  ASSIGN_OR_RETURN(partition::Plan plan,
                   partition::NamedPlan("hybrid", graph, {.devices = kDevices, .global_batch = kBatch}));
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(graph, plan, {.global_batch = kBatch, .pixels = stream->scaling()}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> devices, cpu::MakeCpuBackend({.devices = kDevices}));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *devices));
  RETURN_IF_ERROR(engine::InitializeParameters(executor->loaded(), /*seed=*/1));
  ASSIGN_OR_RETURN(engine::TrainReport report,
                   engine::Train(*executor, *stream, {.steps = 200, .learning_rate = {.base = 0.02}}));
  std::printf("loss %.3f -> %.3f on %d devices\n", report.losses.front(), report.losses.back(), devices->device_count());
  return absl::OkStatus();
}
// README ends

int main() {
  const absl::Status status = TrainOwnNetwork();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
