// A network of one's own under a plan of one's own, made layer by layer: whether it computes what one device computes.

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "layers/graph.h"
#include "partition/legality.h"
#include "partition/plan.h"
#include "tools/planning.h"
#include "tools/verify_plan.h"

using namespace colonnade;  // NOLINT: an example

constexpr int64_t kBatch = 32;

absl::StatusOr<layers::LayerGraph> OwnNetwork() {
  layers::GraphBuilder net("own");
  auto x = net.Input("images", {1, 8, 8});
  x = net.Relu("relu1", net.Conv2d("conv1", x, {.out_channels = 16, .kernel = 3, .pad = 1}));
  x = net.Relu("relu2", net.Conv2d("conv2", x, {.out_channels = 32, .kernel = 3, .pad = 1, .groups = 2}));
  x = net.MaxPool("pool2", x, {.kernel = 2});
  x = net.Relu("relu3", net.FullyConnected("fc3", net.Flatten("flatten", x), {.out_features = 64}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc4", x, {.out_features = 10}));
  return std::move(net).Build();
}

// Two groups of two devices. Each layer has a strategy for the axis of the groups and one for the axis within them: by
// batch on both, but for what is named below.
partition::Plan OwnPlan(const layers::LayerGraph& graph) {
  using layers::Strategy;
  partition::Plan plan = {.name = "own", .mesh = partition::Mesh::ReplicasByColumns(2, 2)};
  for (size_t i = 1; i < graph.nodes.size(); ++i) {  // the first is the input
    plan.layers[graph.nodes[i].name] = {Strategy::kBatch, Strategy::kBatch};
  }
  for (const char* layer : {"conv2", "relu2", "pool2"}) plan.layers[layer] = {Strategy::kBatch, Strategy::kGroup};
  plan.layers["fc3"] = {Strategy::kBatch, Strategy::kColumn};
  plan.layers["relu3"] = {Strategy::kBatch, Strategy::kGroup};  // each column its own features
  plan.layers["fc4"] = {Strategy::kBatch, Strategy::kRow};
  plan.reduction = partition::Reduction::kSharded;
  return plan;
}

absl::Status VerifyOwnPlan() {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, OwnNetwork());
  const partition::Plan plan = OwnPlan(graph);
  RETURN_IF_ERROR(partition::ValidatePlan(plan, graph, kBatch));
  for (const layers::LayerNode& node : graph.nodes) {
    std::printf("  %-8s %s\n", node.name.c_str(), tools::StrategiesOf(plan, node.name).c_str());
  }

  // A slip is named, with what was meant.
  partition::Plan misspelt = plan;
  misspelt.layers["conv_2"] = plan.layers.at("conv2");
  std::cout << "a slip: " << partition::ValidatePlan(misspelt, graph, kBatch).message() << "\n";

  ASSIGN_OR_RETURN(std::unique_ptr<data::SampleSet> digits, data::OpenSamples("digits", data::SplitOf::kTrain, {}));
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> stream, data::Pipeline::Create(std::move(digits), {}));
  tools::VerifyOptions options = {.steps = 3, .lower = {.global_batch = kBatch}};
  for (const bool in_double : {false, true}) {
    options.reference = in_double;  // plain loops in double, held to 1e-10, beside the usual kernels in f32
    ASSIGN_OR_RETURN(tools::VerifyReport report, tools::VerifyPlan(graph, plan, *stream, options));
    std::printf("%s, %lld steps on %d devices: %s; gradients differ by %.1e, where %.1e is granted; the worst: %s\n",
                in_double ? "double" : "f32", static_cast<long long>(report.steps), plan.mesh.device_count(),
                report.ok ? "equal to one device" : "NOT EQUAL", report.error.gradient, report.tolerance.gradient,
                report.worst_tensor.c_str());
    if (!report.ok) return absl::InternalError("the plan does not compute what one device computes");
  }
  return absl::OkStatus();
}

int main() {
  const absl::Status status = VerifyOwnPlan();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
