// What a Program declares: parameters with the slices that devices hold, and results for the host.

#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "layers/traits.h"
#include "partition/lowering/emission.h"

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

// Returns each box of a tensor that is placed so, once: from the first position that holds it. Positions where `buffer_at`
// returns no buffer are passed over.
std::vector<Piece> EachBoxOnce(const Emission& e, const TensorPlacement& placement, const program::Shape& shape,
                               absl::FunctionRef<BufferId(int position)> buffer_at) {
  std::vector<Piece> pieces;
  std::set<program::Shape> seen;  // by offset, which tells boxes of one placement apart
  for (int position : e.builder.positions()) {
    const BufferId buffer = buffer_at(position);
    Region region = RegionOn(e.builder.mesh(), placement, shape, position);
    if (buffer.valid() && seen.insert(region.offset).second) pieces.push_back({buffer, std::move(region)});
  }
  return pieces;
}

// The gradient as the update reads it: under a master from the root, which alone updates.
void AddGradientOutput(Emission& e, int index) {
  const ShardedParameter& p = e.lowering.parameters[index];
  const std::string& layer = e.lowering.graph.nodes[p.node].name;
  Output gradient{.kind = Output::Kind::kGradient, .name = p.spec.name, .layer = layer, .shape = p.spec.shape};
  gradient.pieces = EachBoxOnce(e, p.placement, p.spec.shape, [&](int position) {
    const bool updates = Updates(e.lowering, p.bucket, position);
    return updates ? e.builder.MemberOf(e.buckets[p.bucket].gradients[position], p.member) : BufferId{};
  });
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

void Emit(Emission& e, const Action& action, const Report& report) {
  const layers::LayerNode& node = e.lowering.graph.nodes[report.node];
  const bool is_loss = layers::IsLoss(node.layer);
  Output output{.kind = is_loss ? Output::Kind::kMetrics : Output::Kind::kActivation,
                .name = is_loss ? MetricsName(e.lowering.graph, report.node) : node.name,
                .layer = node.name,
                .shape = e.lowering.value(action.inputs[0].value).shape};
  const int64_t samples = output.shape[0];
  if (!is_loss) output.shape[0] *= static_cast<int64_t>(action.inputs.size());
  for (size_t k = 0; k < action.inputs.size(); ++k) {
    const ValueId id = action.inputs[k].value;
    const Value& value = e.lowering.value(id);
    for (Piece& piece :
         EachBoxOnce(e, value.placement, value.shape, [&](int position) { return e.values.At(id, position); })) {
      piece.region.offset[0] += static_cast<int64_t>(k) * samples;
      output.pieces.push_back(std::move(piece));
    }
  }
  AddStored(e, std::move(output), node.name);
}

void AddOutputs(Emission& e) {
  if (!e.lowering.train()) return;

  Output finite{.kind = Output::Kind::kFinite, .name = "finite", .shape = e.builder.shape(e.flags[0])};
  for (int p : e.builder.positions()) finite.pieces.push_back({e.flags[p], Region::Whole(finite.shape)});
  AddStored(e, std::move(finite), e.layer_names.Unlike("finite"));

  if (!e.gates.gates.empty()) {  // of the first position: all have the same
    AddStored(e,
              {.kind = Output::Kind::kGate,
               .name = "gate",
               .shape = {program::Gate::kCount},
               .pieces = {{e.gates.gates[0], Region::Whole({program::Gate::kCount})}}},
              e.layer_names.Unlike("gate"));
  }

  if (!e.lowering.options.expose_gradients) return;
  for (size_t i = 0; i < e.lowering.parameters.size(); ++i) AddGradientOutput(e, static_cast<int>(i));
}

}  // namespace colonnade::partition
