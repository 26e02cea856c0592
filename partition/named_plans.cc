#include "partition/named_plans.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "layers/traits.h"
#include "partition/legality.h"
#include "partition/shardings.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;
using layers::LayerId;
using layers::LayerNode;
using layers::Placement;
using layers::Strategy;

// What a plan wants of one axis.
enum class AxisRule { kBatch, kColumns, kOneWeirdTrick };

// How many columns a plan has.
enum class ColumnRule {
  kOne,
  kAll,   // as many as devices
  kOpen,  // as many as are asked for, else two
};

struct PlanForm {
  absl::string_view name;
  ColumnRule columns;
  AxisRule data_rule;  // of the axis "data"; that of "model" has columns
};
constexpr PlanForm kForms[] = {{"single", ColumnRule::kOne, AxisRule::kBatch},
                               {"data", ColumnRule::kOne, AxisRule::kBatch},
                               {"model", ColumnRule::kAll, AxisRule::kBatch},
                               {"hybrid", ColumnRule::kOpen, AxisRule::kBatch},
                               {"owt", ColumnRule::kOne, AxisRule::kOneWeirdTrick}};

// Null where there is none of that name.
const PlanForm* FormOf(absl::string_view name) {
  const auto* form = std::find_if(std::begin(kForms), std::end(kForms), [&](const PlanForm& f) { return f.name == name; });
  return form == std::end(kForms) ? nullptr : form;
}

bool HasParameters(const LayerNode& node) { return !node.parameters.empty(); }

// What the producers of a layer make on one axis.
struct Produced {
  Placement placement;  // replicated where they differ
  bool for_it_alone = true;
};

// The strategy under which a layer that multiplies no weights takes what its producer makes as it lies. Sections that other
// layers read, too, are made whole for those that multiply weights, so the others share that.
Strategy Following(layers::ChannelUse channels, const Produced& produced) {
  const Placement& lies = produced.placement;
  if (lies.kind == Placement::Kind::kSplit && lies.dim == 0) return Strategy::kBatch;
  if (!lies.sections.empty()) {
    return channels == layers::ChannelUse::kKeeps && produced.for_it_alone ? Strategy::kGroup : Strategy::kReplicate;
  }
  const bool cut = lies.kind == Placement::Kind::kSplit || lies.groups > 1;
  return cut && channels != layers::ChannelUse::kNeedsAll ? Strategy::kGroup : Strategy::kReplicate;
}

Strategy Wanted(AxisRule rule, const LayerNode& node, const Produced& produced) {
  if (rule == AxisRule::kBatch) return Strategy::kBatch;
  const layers::LayerTraits traits = layers::TraitsOf(node.layer);
  if (!layers::MultipliesWeights(node.layer)) return Following(traits.channels, produced);
  if (rule == AxisRule::kOneWeirdTrick && layers::IsConvolution(node.layer)) return Strategy::kBatch;
  return traits.groups > 1 ? Strategy::kGroup : Strategy::kColumn;
}

// By layer: how many read what it makes.
std::vector<int> ReadersOf(const LayerGraph& graph) {
  std::vector<int> readers(graph.nodes.size(), 0);
  for (const LayerNode& node : graph.nodes) {
    for (LayerId input : node.inputs) ++readers[input.value];
  }
  return readers;
}

Produced ProducedFor(const LayerNode& node, const std::vector<TensorPlacement>& outputs, const std::vector<int>& readers,
                     int axis) {
  Produced produced{outputs[node.inputs[0].value][axis]};
  for (LayerId input : node.inputs) {
    if (outputs[input.value][axis] != produced.placement) return {Placement::Replicated()};
    produced.for_it_alone = produced.for_it_alone && readers[input.value] == 1;
  }
  return produced;
}

// What the batches that suit all layers are multiples of, where each layer splits the batch over the axes that are there for
// that.
int64_t BatchStepUnder(const std::vector<AxisRule>& rules, const Mesh& mesh, const LayerGraph& graph) {
  int64_t parts = 1, step = 1;
  for (int a = 0; a < mesh.axis_count(); ++a) parts *= rules[a] == AxisRule::kColumns ? 1 : mesh.axes[a].size;
  for (const LayerNode& node : graph.nodes) step = CommonBatchStep(step, BatchStepOf(node, parts));
  return step;
}

absl::Status FillLayers(const LayerGraph& graph, int64_t global_batch, const std::vector<AxisRule>& rules, Plan& plan) {
  const int axes = plan.mesh.axis_count();
  std::vector<TensorPlacement> outputs(graph.nodes.size(), TensorPlacement(axes, Placement::Replicated()));
  const std::vector<int> readers = ReadersOf(graph);
  const int64_t batch_step = BatchStepUnder(rules, plan.mesh, graph);
  const auto shard = [&](LayerId id, const std::vector<Strategy>& strategies) {
    return ShardNode(graph, id, plan.mesh, strategies, global_batch, program::Mode::kTrain, /*micro_batches=*/1, batch_step);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const LayerNode& node = graph.nodes[i];
    const LayerId id{static_cast<int32_t>(i)};
    if (layers::IsInput(node.layer)) {
      for (int a = 0; a < axes; ++a) {
        if (rules[a] != AxisRule::kColumns && plan.mesh.axes[a].size > 1) outputs[i][a] = Placement::Split(0);
      }
      continue;
    }
    std::vector<Strategy> strategies(axes, Strategy::kReplicate);
    for (int a = 0; a < axes; ++a) {
      if (plan.mesh.axes[a].size == 1) continue;
      strategies[a] = Wanted(rules[a], node, ProducedFor(node, outputs, readers, a));
      absl::StatusOr<NodeSharding> sharding = shard(id, strategies);
      if (sharding.ok()) continue;
      if (absl::IsFailedPrecondition(sharding.status())) {
        return absl::FailedPreconditionError(absl::StrFormat("plan \"%s\": %s", plan.name, sharding.status().message()));
      }
      strategies[a] = Strategy::kReplicate;
      plan.notes.push_back(absl::StrFormat("%s; it is replicated there", sharding.status().message()));
    }
    ASSIGN_OR_RETURN(NodeSharding sharding, shard(id, strategies));
    outputs[i] = sharding.output;
    plan.layers[node.name] = std::move(strategies);
  }
  return absl::OkStatus();
}

absl::Status CheckThatItSplits(const LayerGraph& graph, const Plan& plan) {
  for (int a = 0; a < plan.mesh.axis_count(); ++a) {
    if (plan.mesh.axes[a].size == 1) continue;
    bool splits = false;
    for (const LayerNode& node : graph.nodes) {
      auto layer = plan.layers.find(node.name);
      splits = splits || (HasParameters(node) && layer->second[a] != Strategy::kReplicate);
    }
    if (!splits) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "plan \"%s\" would split nothing over the %d positions of axis \"%s\"%s; use another number of "
          "devices or another plan",
          plan.name, plan.mesh.axes[a].size, plan.mesh.axes[a].name,
          plan.notes.empty() ? ", since no layer has parameters" : absl::StrCat(": ", absl::StrJoin(plan.notes, "; "))));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Mesh> MeshFor(const PlanForm& form, const NamedPlanOptions& options) {
  const int devices = options.devices;
  if (devices < 1) return absl::FailedPreconditionError(absl::StrFormat("expected at least 1 device, found %d", devices));
  if (form.name == "single" && devices != 1) {
    return absl::FailedPreconditionError(
        absl::StrFormat("plan \"single\" uses 1 device, found %d devices; plan data is for several", devices));
  }
  if (form.columns == ColumnRule::kOne) return Mesh::ReplicasByColumns(devices, 1);
  const bool are_all = form.columns == ColumnRule::kAll;
  const int columns = options.columns > 0 ? options.columns : are_all ? devices : 2;
  if (devices % columns != 0 || (are_all && columns != devices)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("plan \"%s\": expected %s, found %s on %s; %s", form.name,
                        are_all ? "as many columns as devices" : "devices that its columns divide",
                        base::Counted(columns, "column"), base::Counted(devices, "device"),
                        are_all ? "plan hybrid has several groups of columns" : "use another number of either"));
  }
  return Mesh::ReplicasByColumns(devices / columns, columns);
}

}  // namespace

const std::vector<std::string>& PlanNames() {
  static const auto& names = *[] {
    auto* all = new std::vector<std::string>;
    for (const PlanForm& form : kForms) all->emplace_back(form.name);
    return all;
  }();
  return names;
}

std::vector<std::string> PlanNamesAndAuto() {
  std::vector<std::string> names = PlanNames();
  names.emplace_back(kAutoPlan);
  return names;
}

bool IsNamedPlan(absl::string_view name) { return FormOf(name) != nullptr; }

absl::StatusOr<Plan> NamedPlan(absl::string_view name, const LayerGraph& graph, const NamedPlanOptions& options) {
  const PlanForm* form = FormOf(name);
  if (form == nullptr) {
    if (name == kAutoPlan) {
      return absl::FailedPreconditionError(
          absl::StrFormat("plan \"%s\" has no fixed form: a search finds it for a machine (SearchPlans); expected one of %s",
                          name, absl::StrJoin(PlanNames(), ", ")));
    }
    return absl::FailedPreconditionError(absl::StrFormat("unknown plan \"%s\"%s; expected one of %s, auto, or a plan file",
                                                         name, base::DidYouMean(", ", name, PlanNamesAndAuto()),
                                                         absl::StrJoin(PlanNames(), ", ")));
  }
  RETURN_IF_ERROR(CheckBatchSize(graph, options.global_batch));
  ASSIGN_OR_RETURN(Mesh mesh, MeshFor(*form, options));
  Plan plan;
  plan.name = std::string(name);
  plan.mesh = std::move(mesh);
  RETURN_IF_ERROR(FillLayers(graph, options.global_batch, {form->data_rule, AxisRule::kColumns}, plan));
  RETURN_IF_ERROR(CheckThatItSplits(graph, plan));
  return plan;
}

}  // namespace colonnade::partition
