// What a Program declares: parameters with the slices that devices hold, and results for the host.

#include <set>
#include <utility>

#include "partition/emission.h"

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::Output;
using program::Piece;
using program::Region;

// An output, and the tasks that store its pieces.
void AddStored(Emission& e, Output output, const std::string& from) {
  const std::vector<Piece> pieces = output.pieces;
  const int index = e.builder.program().AddOutput(std::move(output));
  for (const Piece& piece : pieces) {
    e.builder.program().AddCompute(e.builder.buffer(piece.buffer).device, program::Lane::kCopy, program::Store{index},
                                   {e.builder.Read(piece.buffer)}, 0, {from, program::Pass::kOutput});
  }
}

// The gradient as the update reads it: from the first device that holds each box of it, which under a master is the root.
void AddGradientOutput(Emission& e, int index) {
  const ShardedParameter& p = e.lowering.parameters[index];
  const std::string& layer = e.lowering.graph.nodes[p.node].name;
  Output gradient{.kind = Output::Kind::kGradient, .name = p.spec.name, .layer = layer, .shape = p.spec.shape};
  std::set<std::pair<program::Shape, program::Shape>> seen;
  for (int position : e.builder.positions()) {
    const Region region = RegionOn(e.builder.mesh(), p.placement, p.spec.shape, position);
    if (!Updates(e.lowering, p.bucket, position) || !seen.emplace(region.offset, region.size).second) continue;
    gradient.pieces.push_back({e.builder.MemberOf(e.buckets[p.bucket].gradients[position], p.member), region});
  }
  AddStored(e, std::move(gradient), layer);
}

}  // namespace

void AddParameters(Emission& e) {
  const std::vector<program::StateKind> kept = program::StateOf(e.update().optimizer);
  for (const ShardedParameter& p : e.lowering.parameters) {
    program::Parameter parameter{.name = p.spec.name,
                                 .layer = e.lowering.graph.nodes[p.node].name,
                                 .shape = p.spec.shape,
                                 .initializer = p.spec.initializer};
    for (int position : e.builder.positions()) {
      const Region region = RegionOn(e.builder.mesh(), p.placement, p.spec.shape, position);
      const BucketBuffers& bucket = e.buckets[p.bucket];
      parameter.value().push_back({e.builder.MemberOf(bucket.weights[position], p.member), region});
      if (!bucket.averages.empty()) {
        parameter.pieces(program::StateKind::kAverage)
            .push_back({e.builder.MemberOf(bucket.averages[position], p.member), region});
      }
      for (size_t k = 0; k < bucket.kept.size(); ++k) {
        if (!bucket.kept[k][position].valid()) continue;
        parameter.pieces(kept[k]).push_back({e.builder.MemberOf(bucket.kept[k][position], p.member), region});
      }
    }
    e.builder.program().AddParameter(std::move(parameter));
  }
  for (size_t s = 0; s < e.lowering.state.size(); ++s) {
    const ShardedState& state = e.lowering.state[s];
    program::Parameter statistic{.name = state.spec.name,
                                 .layer = e.lowering.graph.nodes[state.node].name,
                                 .role = state.is_frozen ? program::StateRole::kFrozen : program::StateRole::kStatistic,
                                 .shape = state.spec.shape,
                                 .initializer = state.spec.initializer};
    for (int p : e.builder.positions()) {
      statistic.value().push_back({e.state[s][p], RegionOn(e.builder.mesh(), state.placement, state.spec.shape, p)});
    }
    e.builder.program().AddParameter(std::move(statistic));
  }
}

// From the first position: all have the sums.
void Emit(Emission& e, const Action& action, const ReportMetrics&) {
  const ValueId id = action.inputs[0].value;
  const int loss = std::get<LossMetrics>(e.lowering.value(id).role).node;
  Output output{.kind = Output::Kind::kMetrics,
                .name = MetricsName(e.lowering.graph, loss),
                .layer = action.provenance.layer,
                .shape = e.lowering.value(id).shape};
  output.pieces = {{e.values.At(id, 0), Region::Whole(output.shape)}};
  AddStored(e, std::move(output), action.provenance.layer);
}

void AddOutputs(Emission& e) {
  if (!e.lowering.train()) return;

  Output finite{.kind = Output::Kind::kFinite, .name = "finite", .shape = e.builder.shape(e.flags[0])};
  for (int p : e.builder.positions()) finite.pieces.push_back({e.flags[p], Region::Whole(finite.shape)});
  AddStored(e, std::move(finite), "finite");

  if (!e.gates.gates.empty()) {  // of the first position: all have the same
    AddStored(e,
              {.kind = Output::Kind::kGate,
               .name = "gate",
               .shape = {program::Gate::kCount},
               .pieces = {{e.gates.gates[0], Region::Whole({program::Gate::kCount})}}},
              "gate");
  }

  if (!e.lowering.options.expose_gradients) return;
  for (size_t i = 0; i < e.lowering.parameters.size(); ++i) AddGradientOutput(e, static_cast<int>(i));
}

}  // namespace colonnade::partition
