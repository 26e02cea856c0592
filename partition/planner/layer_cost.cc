#include "partition/planner/layer_cost.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "partition/task_work.h"
#include "program/op_traits.h"
#include "program/work.h"

namespace colonnade::partition {
namespace {

using program::CollectiveKind;
using program::Shape;

double Bytes(const Shape& shape, program::DType dtype) {
  return static_cast<double>(program::ElementCount(shape) * program::SizeInBytes(dtype));
}

program::DType TypeOf(const program::OperandTrait& trait, program::DType dtype) {
  return program::TypeOf(trait.role).value_or(trait.width == program::Width::kMaster ? program::MasterType(dtype) : dtype);
}

// Returns the work that `op` would have in a Program of element type `dtype`.
program::Work NominalWork(const layers::EmittedOp& op, program::DType dtype) {
  const auto traits = program::TraitsOfOperands(op.op, op.uses.size());
  return program::WorkOf(op.op, op.uses, op.flops, [&](size_t k) {
    return op.uses[k].region.elements() * program::SizeInBytes(TypeOf(*(*traits)[k], dtype));
  });
}

// What is summed over devices, and gradients of parameters, travel in the master type.
bool Sums(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter; }

double SecondsOf(std::vector<layers::EmittedOp> ops, const CostFunctions& cost) {
  double seconds = 0;
  for (layers::EmittedOp& op : ops) {
    program::Task task;
    task.work = NominalWork(op, cost.dtype);
    task.body = program::Compute{std::move(op.op)};
    task.uses = {op.uses.begin(), op.uses.end()};
    seconds += cost.compute(task);
  }
  return seconds;
}

layers::EmittedOp Update(const Shape& parameter) {
  using program::Access;
  const program::Region all = program::Region::Whole(parameter);
  return {.op = program::SgdUpdate{},
          .uses = {{{}, {{0}, {program::StepScalar::kCount}}, Access::kRead},
                   {{}, all, Access::kRead},
                   {{}, all, Access::kAccumulate},
                   {{}, all, Access::kAccumulate}},
          .flops = UpdateFlops(program::ElementCount(parameter))};
}

}  // namespace

absl::StatusOr<LayerCost> CostOfLayer(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                                      absl::Span<const layers::Strategy> strategies, int64_t global_batch,
                                      const CostFunctions& cost, const StepContents& contents) {
  ASSIGN_OR_RETURN(NodeSharding sharding, ShardNode(graph, id, mesh, strategies, global_batch, cost.mode));
  LayerCost layer{.sharding = std::move(sharding)};
  const layers::LayerNode& node = graph.node(id);
  const layers::LayerStages& stages = layer.sharding.stages;
  const WantedStages wanted = contents.Wanted(id.value, stages);
  layer.stage_sec.resize(stages.stages.size());
  std::set<size_t> moved;  // inner tensors
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    if (!wanted.runs[s]) continue;
    const auto is_made = [&](layers::Slot slot) { return contents.Makes(id.value, stages.stages[s], slot, wanted); };
    layer.stage_sec[s] = SecondsOf(EmitOnOneDevice(mesh, layer.sharding, static_cast<int>(s), is_made), cost);
    layer.compute_sec += layer.stage_sec[s];
    for (layers::Slot slot : stages.stages[s].writes) {
      if (slot.kind == layers::Slot::Kind::kInner && wanted.inner[slot.index]) moved.insert(slot.index);
    }
  }
  for (size_t v : moved) {
    layer.transfer_sec += CostOfReshard(mesh, layer.sharding.inner_made[v], layer.sharding.inner_needed[v],
                                        layer.sharding.whole.inner[v], cost);
  }
  for (size_t p = 0; p < node.parameters.size() && contents.Trains(id.value); ++p) {
    const Shape local = LocalShape(mesh, layer.sharding.parameters[p], node.parameters[p].shape);
    const double update = SecondsOf({Update(local)}, cost);
    layer.compute_sec += update;
    layer.update_sec += update;
    int64_t members = 1;
    for (int axis : PartialAxes(mesh, layer.sharding.parameter_gradients[p])) members *= mesh.axes[axis].size;
    if (members > 1) {
      layer.reduction_sec += cost.transfer(CollectiveKind::kAllReduce, static_cast<int>(members),
                                           Bytes(local, program::MasterType(cost.dtype)));
    }
  }
  return layer;
}

double CostOfReshards(const Mesh& mesh, const TensorPlacement& made, absl::Span<const TensorPlacement> needed,
                      const Shape& shape, const CostFunctions& cost) {
  struct Copy {
    TensorPlacement placement;
    int from = -1;  // the copy that `entry` made it of
    ReshardEntry entry{};
    int replaced_by = -1;
  };
  std::vector<Copy> copies = {{made}};
  double seconds = 0;
  for (const TensorPlacement& to : needed) {
    for (int at = 0;;) {
      while (copies[at].replaced_by >= 0) at = copies[at].replaced_by;
      const std::vector<ReshardEntry> path = ReshardPath(mesh, copies[at].placement, to);
      if (path.empty()) break;
      const ReshardEntry& entry = path.front();
      const auto known = std::find_if(copies.begin(), copies.end(),
                                      [&](const Copy& copy) { return copy.from == at && copy.entry == entry; });
      if (known != copies.end()) {
        at = static_cast<int>(known - copies.begin());
        continue;
      }
      if (const std::optional<CollectiveKind> kind = CollectiveOf(entry.kind)) {
        const int members = static_cast<int>(ReshardGroup(mesh, entry, 0).size());
        const Shape local = LocalShape(mesh, copies[at].placement, shape);
        const program::DType dtype = Sums(*kind) ? program::MasterType(cost.dtype) : cost.dtype;
        for (const program::Region& section : SectionsOf(entry, local)) {
          seconds += cost.transfer(*kind, members, Bytes(section.size, dtype));
        }
      }
      Copy copy{.placement = copies[at].placement, .from = at, .entry = entry};
      copy.placement[entry.axis] = entry.to;
      if (entry.kind == ReshardKind::kAllReduce) copies[at].replaced_by = static_cast<int>(copies.size());
      at = static_cast<int>(copies.size());
      copies.push_back(std::move(copy));
    }
  }
  return seconds;
}

double CostOfReshard(const Mesh& mesh, const TensorPlacement& from, const TensorPlacement& to, const Shape& shape,
                     const CostFunctions& cost) {
  return CostOfReshards(mesh, from, {to}, shape, cost);
}

}  // namespace colonnade::partition
