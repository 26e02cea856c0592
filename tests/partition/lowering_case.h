// For tests of single lowering passes: a Lowering made by hand, and its values, actions and buckets in words.
//
// An action is one line: kind, layer or bucket, operands with the placement that is needed, "->", outputs with the placement
// in which they are made; behind it "part 0" of an action in parts. A placement has a letter for each axis: R replicated, S0
// split along dimension 0, S1:4+8 split along dimension 1 by sections, P partial, R/2 and P/2 within one of two runs.
// Parameters and their gradients are left out, and so is what is not there.
#ifndef COLONNADE_TESTS_PARTITION_LOWERING_CASE_H_
#define COLONNADE_TESTS_PARTITION_LOWERING_CASE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {

inline std::string Letters(const TensorPlacement& placement) {
  return absl::StrJoin(placement, ",", [](std::string* out, const layers::Placement& p) {
    const char* kind = p.kind == layers::Placement::Kind::kSplit ? "S" : "R";
    absl::StrAppend(out, p.kind == layers::Placement::Kind::kPartial ? "P" : kind);
    if (p.kind == layers::Placement::Kind::kSplit)
      absl::StrAppend(out, p.dim, p.sections.empty() ? "" : ":", absl::StrJoin(p.sections, "+"));
    if (p.groups > 1) absl::StrAppend(out, "/", p.groups);
  });
}

struct KindOf {
  const Lowering& lowering;
  std::string operator()(const LoadInput&) const { return "load"; }
  std::string operator()(const RunStage& run) const {
    const bool forward = lowering.stage(run).pass == program::Pass::kForward;
    std::string kind = forward ? "forward" : "backward";
    for (layers::Fused fused : run.fused_reads) {
      if (fused == layers::Fused::kAddend) kind += "+addend";
      if (fused == layers::Fused::kMaskSource) kind += "+mask";
      if (fused == layers::Fused::kGradientAddend) kind += "+more";
      if (fused == layers::Fused::kWeight) kind += "+weight";
      if (fused == layers::Fused::kBias) kind += "+bias";
    }
    if (run.epilogue) kind += run.epilogue == program::Activation::kRelu ? "+relu" : "+gelu";
    return kind;
  }
  std::string operator()(const Round&) const { return "round"; }
  std::string operator()(const SumGradients&) const { return "sum"; }
  std::string operator()(const Reshard& r) const { return absl::StrCat(Name(r.entry.kind), "/", r.entry.axis); }
  std::string operator()(const CheckGradients&) const { return "check"; }
  std::string operator()(const ReduceGradients&) const { return "reduce"; }
  std::string operator()(const SumMicroBatches&) const { return "sum micro-batches"; }
  std::string operator()(const CountLabels&) const { return "count labels"; }
  std::string operator()(const Report&) const { return "report"; }
  std::string operator()(const ReduceStatistics&) const { return "reduce statistics"; }
  std::string operator()(const MeasureGradients&) const { return "measure"; }
  std::string operator()(const SumNorms&) const { return "sum norms"; }
  std::string operator()(const OpenGate&) const { return "open gate"; }
  std::string operator()(const UpdateParameters&) const { return "update"; }
  std::string operator()(const GatherParameters&) const { return "gather"; }
  std::string operator()(const AverageParameters&) const { return "average"; }
  std::string operator()(const GatherGradients&) const { return "gather_gradients"; }
};

// Whether a value is a parameter that is trained, or the gradient of one.
inline bool IsOfParameter(const Value& value) { return value.Is<TrainedParameter>() || value.Is<ParameterGradient>(); }

inline std::string Words(const Lowering& lowering, const Action& action) {
  auto value = [&](ValueId id, const TensorPlacement& placement) {
    if (!id.valid() || IsOfParameter(lowering.value(id))) return std::string();
    return absl::StrCat(" ", lowering.value(id).name, placement.empty() ? "" : absl::StrCat("(", Letters(placement), ")"));
  };
  std::string inputs, outputs;
  for (const ActionOperand& operand : action.inputs) inputs += value(operand.value, operand.needed);
  for (ValueId output : action.outputs) {
    outputs += value(output, output.valid() ? lowering.value(output).placement : TensorPlacement{});
  }
  return absl::StrCat(std::visit(KindOf{lowering}, action.body), " ", action.provenance.layer, ":", inputs,
                      outputs.empty() ? "" : " ->", outputs,
                      action.batch_part.has_value() ? absl::StrCat(" part ", *action.batch_part) : "");
}

inline std::vector<std::string> Actions(const Lowering& lowering) {
  std::vector<std::string> lines;
  for (const Action& action : lowering.actions) lines.push_back(Words(lowering, action));
  return lines;
}

// "bucket0 over 0: fc2.weight fc2.bias"
inline std::vector<std::string> Buckets(const Lowering& lowering) {
  std::vector<std::string> lines;
  for (const GradientBucket& bucket : lowering.buckets) {
    lines.push_back(absl::StrCat(bucket.name, " over ", absl::StrJoin(bucket.axes, ","), ":"));
    for (int p : bucket.parameters) absl::StrAppend(&lines.back(), " ", lowering.parameters[p].spec.name);
  }
  return lines;
}

// A value by what it is to the layer of an action; if the action reads it, how it is needed.
struct SlotValue {
  layers::Slot slot;
  ValueId value;
  TensorPlacement needed{};
};

// A Lowering with what it refers to, and with the shardings with which lowering begins.
class LoweringCase {
 public:
  LoweringCase(layers::LayerGraph of_graph, Plan of_plan, LowerOptions of_options = {.global_batch = 8})
      : graph(std::move(of_graph)), plan(std::move(of_plan)), options(of_options), lowering{graph, plan, options} {
    absl::StatusOr<GraphSharding> sharding = ShardGraph(graph, plan, options.global_batch, options.mode);
    EXPECT_TRUE(sharding.ok()) << sharding.status();
    if (!sharding.ok()) return;
    lowering.shardings = std::move(sharding->nodes);
    lowering.batch_parts = sharding->transfer_parts;
  }
  LoweringCase(const LoweringCase&) = delete;

  int Node(const std::string& name) const {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].name == name) return static_cast<int>(i);
    }
    ADD_FAILURE() << "no layer " << name;
    return -1;
  }
  ValueId Add(std::string name, program::Shape shape, TensorPlacement placement = {}) {
    return lowering.AddValue({.name = std::move(name), .shape = std::move(shape), .placement = std::move(placement)});
  }
  void Act(ActionBody what, const std::string& from, program::Pass pass, std::vector<ActionOperand> inputs,
           std::vector<ValueId> outputs) {
    lowering.actions.push_back(
        {.body = what, .inputs = std::move(inputs), .outputs = std::move(outputs), .provenance = {from, pass}});
  }
  // The first stage of a layer in a pass that reads or writes all of `values`; what else it reads or writes is not there.
  void ForwardOf(const std::string& layer, const std::vector<SlotValue>& values) {
    StageOf(layer, program::Pass::kForward, values);
  }
  void BackwardOf(const std::string& layer, const std::vector<SlotValue>& values) {
    StageOf(layer, program::Pass::kBackward, values);
  }
  // A value for each of the layer's parameters (or the gradients that its backward makes).
  std::vector<SlotValue> ParametersOf(const std::string& layer, bool gradients) {
    std::vector<SlotValue> values;
    for (size_t p = 0; p < lowering.parameters.size(); ++p) {
      const ShardedParameter& parameter = lowering.parameters[p];
      if (parameter.node != Node(layer)) continue;
      const ValueId value = Add(parameter.spec.name, parameter.spec.shape, parameter.placement);
      lowering.values[value.value].in_master_type = true;
      const int index = static_cast<int>(p);
      lowering.values[value.value].role = gradients ? ValueRole(ParameterGradient{index}) : TrainedParameter{index};
      const layers::Slot slot = layers::Parameter(parameter.index);
      values.push_back({gradients ? layers::D(slot) : slot, value, parameter.placement});
    }
    return values;
  }

  const layers::LayerGraph graph;
  Plan plan;
  LowerOptions options;
  Lowering lowering;

 private:
  void StageOf(const std::string& layer, program::Pass pass, const std::vector<SlotValue>& values) {
    const int node = Node(layer);
    const std::vector<layers::Stage>& stages = lowering.shardings[node].stages.stages;
    for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
      if (stages[s].pass != pass) continue;
      std::vector<ActionOperand> inputs(stages[s].reads.size());
      std::vector<ValueId> outputs(stages[s].writes.size());
      size_t placed = 0;
      for (const SlotValue& v : values) {
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (stages[s].reads[k] == v.slot) inputs[k] = {v.value, v.needed}, ++placed;
        }
        for (size_t k = 0; k < outputs.size(); ++k) {
          if (stages[s].writes[k] == v.slot) outputs[k] = v.value, ++placed;
        }
      }
      if (placed == values.size()) return Act(RunStage{node, s}, layer, pass, std::move(inputs), std::move(outputs));
    }
    ADD_FAILURE() << "no stage of " << layer << " reads or writes all of these";
  }
};

// A plan on replicas x columns that gives each layer of `graph` the strategies named, or `rest`.
inline Plan PlanOf(const layers::LayerGraph& graph, int64_t replicas, int64_t columns,
                   const std::vector<layers::Strategy>& rest,
                   const std::map<std::string, std::vector<layers::Strategy>>& named = {}) {
  Plan plan{.name = "by hand", .mesh = Mesh::ReplicasByColumns(replicas, columns)};
  for (size_t i = 1; i < graph.nodes.size(); ++i) {
    const auto found = named.find(graph.nodes[i].name);
    plan.layers[graph.nodes[i].name] = found == named.end() ? rest : found->second;
  }
  return plan;
}

inline layers::LayerGraph Built(layers::GraphBuilder net) {
  absl::StatusOr<layers::LayerGraph> graph = std::move(net).Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : layers::LayerGraph{};
}

// images [4] → fc1 [6] → relu → fc2 [4] → loss
inline layers::LayerGraph TwoLayers() {
  layers::GraphBuilder net("two_layers");
  auto x = net.FullyConnected("fc1", net.Input("images", {4}), {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc2", net.Relu("relu", x), {.out_features = 4}));
  return Built(std::move(net));
}

// images [3,8,8] → conv [4,8,8] → relu → pool [4,4,4] → flatten → fc → loss
inline layers::LayerGraph PooledRelu(int64_t pool_stride = 2) {
  layers::GraphBuilder net("pooled_relu");
  auto x = net.Conv2d("conv", net.Input("images", {3, 8, 8}), {.out_channels = 4, .kernel = 3, .pad = 1});
  x = net.MaxPool("pool", net.Relu("relu", x),
                  pool_stride == 1 ? layers::MaxPool{.kernel = 3, .stride = 1, .pad = 1}
                                   : layers::MaxPool{.kernel = 2, .stride = pool_stride});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return Built(std::move(net));
}

// images [4,6,6] → conv1 [8,6,6] → relu1 → conv2 → norm → add with relu1 → relu2 → flatten → fc → loss
inline layers::LayerGraph Residual() {
  layers::GraphBuilder net("residual");
  const layers::Conv2d conv{.out_channels = 8, .kernel = 3, .pad = 1, .bias = false};
  const auto r = net.Relu("relu1", net.Conv2d("conv1", net.Input("images", {4, 6, 6}), conv));
  auto x = net.Relu("relu2", net.Add("add", {net.BatchNorm("norm", net.Conv2d("conv2", r, conv), {}), r}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return Built(std::move(net));
}

using layers::D, layers::X, layers::Y;

inline constexpr layers::Strategy kReplicate = layers::Strategy::kReplicate, kBatch = layers::Strategy::kBatch,
                                  kColumn = layers::Strategy::kColumn, kGroup = layers::Strategy::kGroup,
                                  kRow = layers::Strategy::kRow;
inline const layers::Placement kR = layers::Placement::Replicated(), kS0 = layers::Placement::Split(0),
                               kS1 = layers::Placement::Split(1), kP = layers::Placement::Partial();

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_LOWERING_CASE_H_
