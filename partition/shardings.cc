#include "partition/shardings.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "layers/common_shardings.h"
#include "layers/traits.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::LayerNode;
using layers::Placement;
using layers::Slot;
using layers::Strategy;
using program::Shape;

void Cut(const Placement& placement, int64_t axis_size, Shape& shape) {
  if (placement.kind == Placement::Kind::kSplit) {
    shape[placement.dim] /= axis_size;
  } else if (placement.groups > 1) {
    shape[1] /= placement.groups;
  }
}

// Sections of what an axis leaves of the channels.
void CutSections(const Placement& of_input, int64_t axis_size, std::vector<int64_t>& sections) {
  if (of_input.sections.empty()) {
    const bool cut = (of_input.kind == Placement::Kind::kSplit && of_input.dim == 1) || of_input.groups > 1;
    if (cut) sections.clear();
  } else {
    for (int64_t& section : sections) section /= axis_size;
  }
}

void Append(const layers::Sharding& on_axis, NodeSharding& all) {
  auto append = [](const std::vector<Placement>& from, std::vector<TensorPlacement>& to) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i].push_back(from[i]);
  };
  append(on_axis.inputs, all.inputs);
  append(on_axis.parameters, all.parameters);
  append(on_axis.input_gradients, all.input_gradients);
  append(on_axis.parameter_gradients, all.parameter_gradients);
  append(on_axis.state, all.state);
  all.inner_made.resize(on_axis.inner.size());
  all.inner_needed.resize(on_axis.inner.size());
  for (size_t v = 0; v < on_axis.inner.size(); ++v) {
    all.inner_made[v].push_back(on_axis.inner[v].made);
    all.inner_needed[v].push_back(on_axis.inner[v].needed);
  }
  all.output.push_back(on_axis.output);
  all.output_gradient.push_back(on_axis.output_gradient);
}

// Whether a layer is split by `strategy` over an axis that has several positions.
bool SplitsOver(const Mesh& mesh, absl::Span<const Strategy> strategies, Strategy strategy) {
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (strategies[a] == strategy && mesh.axes[a].size > 1) return true;
  }
  return false;
}

// Over how many devices a layer splits the batch.
int64_t BatchParts(const Mesh& mesh, absl::Span<const Strategy> strategies) {
  int64_t parts = 1;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (strategies[a] == Strategy::kBatch) parts *= mesh.axes[a].size;
  }
  return parts;
}

constexpr int64_t kNoBatchStep = int64_t{1} << 40;  // more samples than any batch has

std::string NearestBatches(int64_t global_batch, int64_t step) {
  if (step >= kNoBatchStep) return "none works for all layers";
  const int64_t below = global_batch / step * step;
  return absl::StrFormat("nearest that work: %s%d", below > 0 ? absl::StrFormat("%d or ", below) : "", below + step);
}

// Batches that all layers take are multiples of `step`.
absl::Status CheckBatchSplits(int64_t parts, int64_t global_batch, int64_t step) {
  if (global_batch % parts == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat("a global batch of %d does not split over %d devices; %s",
                                                       global_batch, parts, NearestBatches(global_batch, step)));
}

}  // namespace

int64_t CommonBatchStep(int64_t a, int64_t b) {
  const int64_t factor = b / std::gcd(a, b);
  return a < kNoBatchStep / factor ? a * factor : kNoBatchStep;
}

int64_t BatchStepOf(const LayerNode& node, int64_t parts) {
  const int64_t group = std::max<int64_t>(layers::TraitsOf(node.layer).samples_per_group, 1);
  return group < kNoBatchStep / parts ? group * parts : kNoBatchStep;
}

const TensorPlacement& Made(const NodeSharding& sharding, Slot slot) {
  switch (slot.kind) {
    case Slot::Kind::kInput:
      return sharding.input_gradients[slot.index];
    case Slot::Kind::kParameter:
      return slot.gradient ? sharding.parameter_gradients[slot.index] : sharding.parameters[slot.index];
    case Slot::Kind::kState:
      return sharding.state[slot.index];
    case Slot::Kind::kInner:
      return sharding.inner_made[slot.index];
    case Slot::Kind::kOutput:
      break;
  }
  return sharding.output;
}

const TensorPlacement& Needed(const NodeSharding& sharding, Slot slot) {
  switch (slot.kind) {
    case Slot::Kind::kInput:
      return sharding.inputs[slot.index];
    case Slot::Kind::kParameter:
      return sharding.parameters[slot.index];
    case Slot::Kind::kState:
      return sharding.state[slot.index];
    case Slot::Kind::kInner:
      return sharding.inner_needed[slot.index];
    case Slot::Kind::kOutput:
      break;
  }
  return slot.gradient ? sharding.output_gradient : sharding.output;
}

const Shape& ShapeOf(const layers::LayerShapes& whole, Slot slot) {
  switch (slot.kind) {
    case Slot::Kind::kInput:
      return whole.inputs[slot.index];
    case Slot::Kind::kParameter:
      return whole.parameters[slot.index];
    case Slot::Kind::kState:
      return whole.state[slot.index];
    case Slot::Kind::kInner:
      return whole.inner[slot.index];
    case Slot::Kind::kOutput:
      break;
  }
  return whole.output;
}

WantedStages StagesWanted(const layers::LayerStages& stages, absl::FunctionRef<bool(Slot)> is_wanted) {
  WantedStages wanted{.runs = std::vector<bool>(stages.stages.size())};
  for (const layers::InnerSpec& inner : stages.inner) wanted.inner.push_back(inner.required);
  for (size_t s = stages.stages.size(); s-- > 0;) {
    const layers::Stage& stage = stages.stages[s];
    bool runs = stage.pass == program::Pass::kForward;
    for (Slot slot : stage.writes) {
      runs = runs || (slot.kind == Slot::Kind::kInner ? wanted.inner[slot.index] : is_wanted(slot));
    }
    wanted.runs[s] = runs;
    for (Slot slot : stage.reads) {
      if (runs && slot.kind == Slot::Kind::kInner) wanted.inner[slot.index] = true;
    }
  }
  return wanted;
}

std::vector<layers::EmittedOp> EmitOnOneDevice(const Mesh& mesh, const NodeSharding& sharding, int stage,
                                               absl::FunctionRef<bool(Slot)> is_made) {
  const layers::Stage& emitted = sharding.stages.stages[stage];
  if (!emitted.emit) return {};
  layers::StageShard shard;
  shard.scalars = {{}, {program::StepScalar::kCount}};
  const auto put = [&](Slot slot, const TensorPlacement& placement) {
    const Shape& shape = ShapeOf(sharding.whole, slot);
    const program::Region region = RegionOn(mesh, placement, shape, 0);
    shard.Put(slot, {{}, region.size, shape, region.offset});
  };
  for (Slot slot : emitted.reads) put(slot, Needed(sharding, slot));
  for (Slot slot : emitted.writes) {
    if (is_made(slot)) put(slot, Made(sharding, slot));
  }
  return emitted.emit(shard);
}

namespace {

absl::Status InLayer(const LayerNode& node, const absl::Status& status) {
  return base::WithContext(status, absl::StrFormat("layer \"%s\"", node.name));
}

absl::Status CheckGroupsOfSamples(int64_t group, int64_t global_batch, int64_t step) {
  if (group == 0 || global_batch % group == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat("a global batch of %d is not cut into groups of %d samples; %s",
                                                       global_batch, group, NearestBatches(global_batch, step)));
}

// Checks the batch that a layer splits; `batch_step` is that of the other layers.
absl::Status CheckBatchOf(const LayerNode& node, int64_t parts, int64_t global_batch, int64_t batch_step) {
  const int64_t step = CommonBatchStep(batch_step, BatchStepOf(node, parts));
  RETURN_IF_ERROR(CheckBatchSplits(parts, global_batch, step));
  return CheckGroupsOfSamples(layers::TraitsOf(node.layer).samples_per_group, global_batch, step);
}

// A layer that normalises over the whole batch would have to wait for all of its micro-batches.
absl::Status CheckMicroBatchesHoldGroups(const LayerNode& node, program::Mode mode, int64_t micro_batches) {
  const layers::LayerTraits traits = layers::TraitsOf(node.layer);
  const bool needs_all = mode == program::Mode::kTrain && traits.normalises_samples && traits.samples_per_group == 0;
  if (micro_batches == 1 || !needs_all) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("expected groups of samples that a micro-batch holds, found one of the whole batch, which is in %d "
                      "micro-batches; set samples_per_group",
                      micro_batches));
}

// Cuts `local`, what a position holds of a layer's tensors, along one axis more.
void CutAll(const layers::Sharding& on_axis, int64_t size, layers::LayerShapes& local) {
  if (!local.sections.empty()) CutSections(on_axis.inputs[0], size, local.sections);
  for (size_t i = 0; i < local.inputs.size(); ++i) Cut(on_axis.inputs[i], size, local.inputs[i]);
  for (size_t i = 0; i < local.parameters.size(); ++i) Cut(on_axis.parameters[i], size, local.parameters[i]);
  for (size_t i = 0; i < local.state.size(); ++i) Cut(on_axis.state[i], size, local.state[i]);
  for (size_t i = 0; i < local.inner.size(); ++i) Cut(on_axis.inner[i].made, size, local.inner[i]);
  Cut(on_axis.output, size, local.output);
}

absl::StatusOr<layers::Sharding> ShardOnAxis(const LayerNode& node, const layers::LayerShapes& local, Strategy strategy,
                                             const program::MeshAxis& axis) {
  if (axis.size == 1) return layers::ReplicatedSharding(local);
  absl::StatusOr<layers::Sharding> sharding = layers::Shard(node.layer, local, strategy, axis.size);
  if (sharding.ok()) return sharding;
  return absl::Status(sharding.status().code(),
                      absl::StrFormat("layer \"%s\" on axis \"%s\": %s", node.name, axis.name, sharding.status().message()));
}

}  // namespace

absl::StatusOr<NodeSharding> ShardNode(const layers::LayerGraph& graph, LayerId id, const Mesh& mesh,
                                       absl::Span<const Strategy> strategies, int64_t global_batch, program::Mode mode,
                                       int64_t micro_batches, int64_t batch_step) {
  const LayerNode& node = graph.node(id);
  if (static_cast<int>(strategies.size()) != mesh.axis_count()) {
    return InLayer(
        node, absl::InvalidArgumentError(absl::StrFormat("expected %s, one for each axis, found %d",
                                                         base::Counted(mesh.axis_count(), "strategy"), strategies.size())));
  }
  const absl::Status batch = CheckBatchOf(node, BatchParts(mesh, strategies), global_batch, batch_step);
  if (!batch.ok()) return InLayer(node, batch);
  NodeSharding all{.whole = graph.Shapes(id, global_batch)};
  all.stages = layers::Stages(node.layer, all.whole,
                              {.train = mode == program::Mode::kTrain,
                               .micro_batches = micro_batches,
                               .makes_partial_sum = SplitsOver(mesh, strategies, Strategy::kRow)});
  if (const absl::Status micro = CheckMicroBatchesHoldGroups(node, mode, micro_batches); !micro.ok()) {
    return InLayer(node, micro);
  }
  for (const layers::ParameterSpec& state : all.stages.state) all.whole.state.push_back(state.shape);
  for (const layers::InnerSpec& inner : all.stages.inner) all.whole.inner.push_back(inner.shape);
  layers::LayerShapes local = all.whole;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    ASSIGN_OR_RETURN(const layers::Sharding on_axis, ShardOnAxis(node, local, strategies[a], mesh.axes[a]));
    Append(on_axis, all);
    CutAll(on_axis, mesh.axes[a].size, local);
  }
  return all;
}

namespace {

bool SplitsSamples(const Placement& p) { return p.kind == Placement::Kind::kSplit && p.dim == 0; }

// Calls f(placement, global shape) for each tensor of a layer that has a row for each sample, or for each group of samples.
template <class Node, class F>
void ForEachActivation(Node& node, const F& f) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    f(node.inputs[i], node.whole.inputs[i]);
    f(node.input_gradients[i], node.whole.inputs[i]);
  }
  for (size_t v = 0; v < node.inner_made.size(); ++v) {
    f(node.inner_made[v], node.whole.inner[v]);
    f(node.inner_needed[v], node.whole.inner[v]);
  }
  f(node.output, node.whole.output);
  f(node.output_gradient, node.whole.output);
}

// Whether some layers, and not all, split the batch over an axis.
bool SamplesMoveOver(const layers::LayerGraph& graph, const Plan& plan, int axis) {
  if (plan.mesh.axes[axis].size == 1) return false;
  size_t split = 0, all = 0;
  for (const LayerNode& node : graph.nodes) {
    const auto layer = plan.layers.find(node.name);
    if (layer == plan.layers.end()) continue;
    ++all;
    split += layer->second[axis] == Strategy::kBatch ? 1 : 0;
  }
  return split > 0 && split < all;
}

void CutIntoSections(const Mesh& mesh, int axis, int64_t parts, TensorPlacement& placement, const Shape& shape) {
  if (!SplitsSamples(placement[axis])) return;
  int64_t rows = shape[0];
  for (int a = 0; a < axis; ++a) rows /= SplitsSamples(placement[a]) ? mesh.axes[a].size : 1;
  placement[axis] = Placement::SplitSections(std::vector<int64_t>(parts, rows / parts), 0);
}

// What the batches that all layers take under a plan are multiples of.
int64_t BatchStepOfAll(const layers::LayerGraph& graph, const Plan& plan) {
  int64_t step = 1;
  for (const LayerNode& node : graph.nodes) {
    const auto layer = plan.layers.find(node.name);
    const bool fits = layer != plan.layers.end() && static_cast<int>(layer->second.size()) == plan.mesh.axis_count();
    if (fits) step = CommonBatchStep(step, BatchStepOf(node, BatchParts(plan.mesh, layer->second)));
  }
  return step;
}

// Returns the shardings of the nodes while no batch lies in parts.
absl::StatusOr<std::vector<NodeSharding>> ShardNodes(const layers::LayerGraph& graph, const Plan& plan, int64_t global_batch,
                                                     program::Mode mode, int64_t micro_batches) {
  std::vector<NodeSharding> shardings(graph.nodes.size());
  const int64_t batch_step = BatchStepOfAll(graph, plan);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const LayerNode& node = graph.nodes[i];
    if (layers::IsInput(node.layer)) continue;
    auto strategies = plan.layers.find(node.name);
    if (strategies == plan.layers.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "plan \"%s\": field layers: expected a strategy for layer \"%s\", found none", plan.name, node.name));
    }
    absl::StatusOr<NodeSharding> sharding = ShardNode(graph, LayerId{static_cast<int32_t>(i)}, plan.mesh, strategies->second,
                                                      global_batch, mode, micro_batches, batch_step);
    if (!sharding.ok()) {
      return absl::Status(sharding.status().code(),
                          absl::StrFormat("plan \"%s\": %s", plan.name, sharding.status().message()));
    }
    shardings[i] = *std::move(sharding);
  }
  return shardings;
}

int TransferParts(const layers::LayerGraph& graph, const Plan& plan, absl::Span<const NodeSharding> shardings) {
  if (plan.transfer_parts == 1) return 1;
  int64_t common = 0;  // divisor of what devices hold
  const auto divide = [&](const TensorPlacement& placement, const Shape& shape) {
    common = std::gcd(common, LocalShape(plan.mesh, placement, shape)[0]);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (layers::IsInput(graph.nodes[i].layer)) continue;
    divide(shardings[i].inputs[0], shardings[i].whole.inputs[0]);
    ForEachActivation(shardings[i], [&](const TensorPlacement& placement, const Shape& shape) {
      if (std::any_of(placement.begin(), placement.end(), SplitsSamples)) divide(placement, shape);
    });
  }
  int parts = plan.transfer_parts;
  while (parts > 1 && common % parts != 0) --parts;
  return parts;
}

// Where samples move, devices hold their share of each part.
void CutBatchIntoParts(const layers::LayerGraph& graph, const Plan& plan, int parts, std::vector<NodeSharding>& shardings) {
  bool moves = false;  // over this axis, or one before it, for which this one is made whole
  for (int axis = 0; axis < plan.mesh.axis_count(); ++axis) {
    moves = moves || SamplesMoveOver(graph, plan, axis);
    if (!moves) continue;
    for (NodeSharding& sharding : shardings) {
      ForEachActivation(sharding, [&](TensorPlacement& placement, const Shape& shape) {
        if (!placement.empty()) CutIntoSections(plan.mesh, axis, parts, placement, shape);
      });
    }
  }
}

}  // namespace

bool MovesActivations(const Plan& plan) {
  return std::any_of(plan.layers.begin(), plan.layers.end(), [&](const auto& layer) {
    for (int a = 0; a < plan.mesh.axis_count(); ++a) {
      if (plan.mesh.axes[a].size > 1 && layer.second[a] != Strategy::kBatch) return true;
    }
    return false;
  });
}

absl::StatusOr<GraphSharding> ShardGraph(const layers::LayerGraph& graph, const Plan& plan, int64_t global_batch,
                                         program::Mode mode, int64_t micro_batches) {
  GraphSharding all;
  ASSIGN_OR_RETURN(all.nodes, ShardNodes(graph, plan, global_batch, mode, micro_batches));
  all.transfer_parts = TransferParts(graph, plan, all.nodes);
  if (all.transfer_parts > 1) CutBatchIntoParts(graph, plan, all.transfer_parts, all.nodes);
  return all;
}

}  // namespace colonnade::partition
