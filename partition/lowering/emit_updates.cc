// The updates of parameters, and what they obey: norms of whole tensors, however they are cut, and a gate.

#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "partition/lowering/emission.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using program::Access;
using program::BufferId;
using program::DType;
using program::Factors;
using program::Lane;
using program::Region;

double RateOf(const Emission& e, int parameter) {
  const auto found = e.update().layer_rates.find(e.lowering.graph.nodes[e.lowering.parameters[parameter].node].name);
  return found == e.update().layer_rates.end() ? 1 : found->second;
}

// Biases, scales and shifts have one dimension.
double DecayOf(const Emission& e, int parameter) {
  return e.update().decays_weights_alone && e.lowering.parameters[parameter].spec.shape.size() == 1 ? 0 : 1;
}

// By member of the bucket; none where each is 1.
Factors FactorsOf(const Emission& e, int bucket, double (*factor)(const Emission& e, int parameter)) {
  Factors factors;
  bool all_one = true;
  for (int parameter : e.lowering.buckets[bucket].parameters) {
    factors.push_back(factor(e, parameter));
    all_one = all_one && factors.back() == 1;
  }
  return all_one ? Factors() : factors;
}

// Returns, in the order of MeshBuilder::positions, 1 for each member of which the position is the first to update this part,
// so that norms count each element once.
std::vector<Factors> CountedBy(const Emission& e, int bucket) {
  const std::vector<int>& positions = e.builder.positions();
  std::vector<Factors> counted(positions.size());
  for (int index : e.lowering.buckets[bucket].parameters) {
    const ShardedParameter& parameter = e.lowering.parameters[index];
    std::set<std::tuple<program::Shape, program::Shape, program::Shape>> seen;
    for (size_t k = 0; k < positions.size(); ++k) {
      const int p = positions[k];
      const Region held = RegionOn(e.builder.mesh(), parameter.placement, parameter.spec.shape, p);
      const bool counts = Updates(e.lowering, bucket, p) &&
                          seen.emplace(UpdatedParts(e.lowering, bucket, p).offset, held.offset, held.size).second;
      counted[k].push_back(counts ? 1 : 0);
    }
  }
  return counted;
}

program::Op UpdateOp(const Emission& e, int bucket) {
  const Factors rates = FactorsOf(e, bucket, RateOf), decays = FactorsOf(e, bucket, DecayOf);
  const double decay = e.update().weight_decay;
  struct Visitor {
    const Factors &rates, &decays;
    double decay;
    program::Op operator()(const program::Sgd& o) const {
      return program::SgdUpdate{o.momentum, decay, o.form, rates, decays};
    }
    program::Op operator()(const program::Lars& o) const {
      return program::SgdUpdate{o.momentum, decay, program::SgdForm::kKrizhevsky, rates, decays};
    }
    program::Op operator()(const program::AdamW& o) const { return program::AdamWUpdate{o, decay, rates, decays}; }
  };
  return std::visit(Visitor{rates, decays, decay}, e.update().optimizer);
}

// Returns how many elements one position updates.
int64_t UpdatedElements(const Emission& e, int bucket) {
  return e.lowering.LocalElements(e.lowering.buckets[bucket]) * UpdatedParts(e.lowering, bucket, 0).size[0] /
         PartsOf(e.lowering, bucket);
}

}  // namespace

void AddGates(Emission& e) {
  if (!e.lowering.train() || !e.update().is_gated()) return;
  int64_t norms = 0;
  for (const GradientBucket& bucket : e.lowering.buckets) {
    e.gates.first_norm.push_back(norms);
    norms += static_cast<int64_t>(bucket.parameters.size());
  }
  e.gates.norms = e.gates.gates = e.gates.trusts = e.builder.NoBuffers();
  for (int p : e.builder.positions()) {
    e.gates.norms[p] = e.builder.AddBuffer(p, "norms", DType::kF64, {norms, 2});
    e.gates.gates[p] = e.builder.AddBuffer(p, "gate", DType::kF64, {program::Gate::kCount});
    e.gates.trusts[p] = e.builder.AddBuffer(p, "trust", DType::kF64, {norms});
  }
}

void Emit(Emission& e, const Action& action, const MeasureGradients& measure) {
  const BucketBuffers& bucket = e.buckets[measure.bucket];
  const GradientBucket& gradients = e.lowering.buckets[measure.bucket];
  const auto members = static_cast<int64_t>(gradients.parameters.size());
  const std::vector<Factors> counted = CountedBy(e, measure.bucket);
  const bool of_weights = std::holds_alternative<program::Lars>(e.update().optimizer);
  for (size_t k = 0; k < counted.size(); ++k) {
    const int p = e.builder.positions()[k];
    const Region part = UpdatedParts(e.lowering, measure.bucket, p);
    layers::EmittedOp op{.op = program::SquaredNorms{counted[k]},
                         .uses = {{bucket.gradients[p], part, Access::kRead}},
                         .flops = 2 * UpdatedElements(e, measure.bucket) * (of_weights ? 2 : 1)};
    if (of_weights) op.uses.push_back({bucket.weights[p], part, Access::kRead});
    op.uses.push_back({e.gates.norms[p], {{e.gates.first_norm[measure.bucket], 0}, {members, 2}}, Access::kWrite});
    e.builder.AddCompute(p, std::move(op), Lane::kCompute, action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const SumNorms&) {
  const int64_t bytes = program::ElementCount(e.builder.shape(e.gates.norms[0])) * program::SizeInBytes(DType::kF64);
  EmitAllReduce(
      e, [&](int) { return e.builder.AllPositions(); }, e.gates.norms, bytes, action.provenance);
}

void Emit(Emission& e, const Action& action, const OpenGate&) {
  program::UpdateGate gate{.clip_norm = e.update().clip_norm, .weight_decay = e.update().weight_decay};
  if (const auto* lars = std::get_if<program::Lars>(&e.update().optimizer)) gate.trust = lars->trust;
  if (e.update().decays_weights_alone && gate.trust > 0) {
    for (const GradientBucket& bucket : e.lowering.buckets) {
      for (int parameter : bucket.parameters) gate.decays.push_back(DecayOf(e, parameter));
    }
    gate.adapted = gate.decays;
  }
  for (int p : e.builder.positions()) {
    e.builder.AddCompute(
        p, {gate, {e.builder.Read(e.gates.norms[p]), e.builder.Write(e.gates.gates[p]), e.builder.Write(e.gates.trusts[p])}},
        Lane::kCompute, action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const UpdateParameters& what) {
  const auto members = static_cast<int64_t>(e.lowering.buckets[what.bucket].parameters.size());
  const int64_t elements = UpdatedElements(e, what.bucket);
  const program::Op update_op = UpdateOp(e, what.bucket);
  const BucketBuffers& bucket = e.buckets[what.bucket];
  for (int p : e.builder.positions()) {
    if (!Updates(e.lowering, what.bucket, p)) continue;
    const Region part = UpdatedParts(e.lowering, what.bucket, p);
    layers::EmittedOp op{.op = update_op, .uses = {e.builder.Read(e.scalars[p])}, .flops = UpdateFlops(elements)};
    if (!e.gates.gates.empty()) {
      op.uses.push_back(e.builder.Read(e.gates.gates[p]));
      op.uses.push_back({e.gates.trusts[p], {{e.gates.first_norm[what.bucket]}, {members}}, Access::kRead});
    }
    op.uses.push_back({bucket.gradients[p], part, Access::kRead});
    for (const ByPosition& kept : bucket.kept) op.uses.push_back({kept[p], part, Access::kAccumulate});
    op.uses.push_back({bucket.weights[p], part, Access::kAccumulate});
    e.builder.AddCompute(p, std::move(op), Lane::kCompute, action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const AverageParameters& what) {
  const BucketBuffers& bucket = e.buckets[what.bucket];
  for (int p : e.builder.positions()) {
    layers::EmittedOp op{.op = program::AverageUpdate{e.update().average_decay},
                         .flops = 3 * e.lowering.LocalElements(e.lowering.buckets[what.bucket])};
    if (!e.gates.gates.empty()) op.uses.push_back(e.builder.Read(e.gates.gates[p]));
    op.uses.push_back(e.builder.Read(bucket.weights[p]));
    op.uses.push_back(e.builder.Accumulate(bucket.averages[p]));
    e.builder.AddCompute(p, std::move(op), Lane::kCompute, action.provenance);
  }
}

}  // namespace colonnade::partition
