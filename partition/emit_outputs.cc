// What a Program declares: parameters with the slices that devices hold, and results for the host.

#include <set>
#include <utility>

#include "partition/emitter.h"

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::Output;
using program::Piece;
using program::Region;

}  // namespace

void Emitter::AddParameters() {
  const std::vector<program::StateKind> kept = program::StateOf(update().optimizer);
  for (const ShardedParameter& p : lowering_.parameters) {
    program::Parameter parameter{.name = p.spec.name,
                                 .layer = lowering_.graph.nodes[p.node].name,
                                 .shape = p.spec.shape,
                                 .initializer = p.spec.initializer};
    for (int position : positions_) {
      const Region region = RegionOn(mesh_, p.placement, p.spec.shape, position);
      const BucketBuffers& bucket = buckets_[p.bucket];
      parameter.value().push_back({MemberBuffer(bucket.weights[position], p.member), region});
      if (!bucket.averages.empty()) {
        parameter.pieces(program::StateKind::kAverage)
            .push_back({MemberBuffer(bucket.averages[position], p.member), region});
      }
      for (size_t k = 0; k < bucket.kept.size(); ++k) {
        if (!bucket.kept[k][position].valid()) continue;
        parameter.pieces(kept[k]).push_back({MemberBuffer(bucket.kept[k][position], p.member), region});
      }
    }
    builder_.AddParameter(std::move(parameter));
  }
  for (size_t s = 0; s < lowering_.state.size(); ++s) {
    const ShardedState& state = lowering_.state[s];
    program::Parameter statistic{.name = state.spec.name,
                                 .layer = lowering_.graph.nodes[state.node].name,
                                 .role = state.is_frozen ? program::StateRole::kFrozen : program::StateRole::kStatistic,
                                 .shape = state.spec.shape,
                                 .initializer = state.spec.initializer};
    for (int p : positions_) {
      statistic.value().push_back({state_[s][p], RegionOn(mesh_, state.placement, state.spec.shape, p)});
    }
    builder_.AddParameter(std::move(statistic));
  }
}

// An output, and the tasks that store its pieces.
void Emitter::AddStored(Output output, const std::string& from) {
  const std::vector<Piece> pieces = output.pieces;
  const int index = builder_.AddOutput(std::move(output));
  for (const Piece& piece : pieces) {
    builder_.AddCompute(builder_.buffer(piece.buffer).device, program::Lane::kCopy, program::Store{index},
                        {builder_.Read(piece.buffer)}, 0, {from, program::Pass::kOutput});
  }
}

// From the first position: all have the sums.
void Emitter::Emit(const Action& action, const ReportMetrics&) {
  const ValueId id = action.inputs[0].value;
  Output output{.kind = Output::Kind::kMetrics,
                .name = NameOfMetrics(lowering_.graph, lowering_.value(id).metrics_of),
                .layer = action.from.layer,
                .shape = lowering_.value(id).shape};
  output.pieces = {{At(id, 0), Region::Whole(output.shape)}};
  AddStored(std::move(output), action.from.layer);
}

void Emitter::AddOutputs() {
  if (!lowering_.train()) return;

  Output finite{.kind = Output::Kind::kFinite, .name = "finite", .shape = builder_.shape(flags_[0])};
  for (int p : positions_) finite.pieces.push_back({flags_[p], Region::Whole(finite.shape)});
  AddStored(std::move(finite), "finite");

  if (!lowering_.options.expose_gradients) return;
  for (size_t i = 0; i < lowering_.parameters.size(); ++i) AddGradientOutput(static_cast<int>(i));
}

// The gradient as the update reads it: from the first device that holds each box of it, which under a master is the root.
void Emitter::AddGradientOutput(int index) {
  const ShardedParameter& p = lowering_.parameters[index];
  const std::string& layer = lowering_.graph.nodes[p.node].name;
  Output gradient{.kind = Output::Kind::kGradient, .name = p.spec.name, .layer = layer, .shape = p.spec.shape};
  std::set<std::pair<program::Shape, program::Shape>> seen;
  for (int position : positions_) {
    const Region region = RegionOn(mesh_, p.placement, p.spec.shape, position);
    if (!Updates(p.bucket, position) || !seen.emplace(region.offset, region.size).second) continue;
    gradient.pieces.push_back({MemberBuffer(buckets_[p.bucket].gradients[position], p.member), region});
  }
  AddStored(std::move(gradient), layer);
}

}  // namespace colonnade::partition
