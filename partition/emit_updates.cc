// The updates of parameters, and what they obey: norms of whole tensors, however they are cut, and a gate.

#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "partition/emitter.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using program::Access;
using program::BufferId;
using program::DType;
using program::Factors;
using program::Lane;
using program::Region;

}  // namespace

void Emitter::AddGates() {
  if (!lowering_.train() || !update().is_gated()) return;
  int64_t norms = 0;
  for (const GradientBucket& bucket : lowering_.buckets) {
    first_norm_.push_back(norms);
    norms += static_cast<int64_t>(bucket.parameters.size());
  }
  norms_ = gates_ = trusts_ = Nowhere();
  for (int p : positions_) {
    const int device = lowering_.plan.device_at(p);
    norms_[p] = builder_.AddBuffer(device, "norms", DType::kF64, {norms, 2});
    gates_[p] = builder_.AddBuffer(device, "gate", DType::kF64, {program::kGateCount});
    trusts_[p] = builder_.AddBuffer(device, "trust", DType::kF64, {norms});
  }
}

// By member of the bucket; none where each is 1.
Factors Emitter::FactorsOf(int bucket, double (Emitter::*of)(int parameter) const) const {
  Factors factors;
  bool all_one = true;
  for (int parameter : lowering_.buckets[bucket].parameters) {
    factors.push_back((this->*of)(parameter));
    all_one = all_one && factors.back() == 1;
  }
  return all_one ? Factors() : factors;
}

double Emitter::RateOf(int parameter) const {
  const auto found = update().layer_rates.find(lowering_.graph.nodes[lowering_.parameters[parameter].node].name);
  return found == update().layer_rates.end() ? 1 : found->second;
}

// Biases, scales and shifts have one dimension.
double Emitter::DecayOf(int parameter) const {
  return update().decays_weights_alone && lowering_.parameters[parameter].spec.shape.size() == 1 ? 0 : 1;
}

// By position, 1 for each member of which it is the first to update this part: norms count each element once.
std::vector<Factors> Emitter::CountedBy(int bucket) const {
  std::vector<Factors> counted(emits_.size());
  for (int index : lowering_.buckets[bucket].parameters) {
    const ShardedParameter& parameter = lowering_.parameters[index];
    std::set<std::tuple<program::Shape, program::Shape, program::Shape>> seen;
    for (int p : positions_) {
      const Region held = RegionOn(mesh_, parameter.placement, parameter.spec.shape, p);
      const bool counts = Updates(bucket, p) && seen.emplace(UpdatedParts(bucket, p).offset, held.offset, held.size).second;
      counted[p].push_back(counts ? 1 : 0);
    }
  }
  return counted;
}

void Emitter::Emit(const Action& action, const MeasureGradients& measure) {
  const BucketBuffers& bucket = buckets_[measure.bucket];
  const GradientBucket& of = lowering_.buckets[measure.bucket];
  const auto members = static_cast<int64_t>(of.parameters.size());
  std::vector<Factors> counted = CountedBy(measure.bucket);
  const bool of_weights = std::holds_alternative<program::Lars>(update().optimizer);
  for (int p : positions_) {
    const Region part = UpdatedParts(measure.bucket, p);
    layers::EmittedOp op{.op = program::SquaredNorms{std::move(counted[p])},
                         .uses = {{bucket.gradients[p], part, Access::kRead}},
                         .flops = 2 * UpdatedElements(measure.bucket) * (of_weights ? 2 : 1)};
    if (of_weights) op.uses.push_back({bucket.weights[p], part, Access::kRead});
    op.uses.push_back({norms_[p], {{first_norm_[measure.bucket], 0}, {members, 2}}, Access::kWrite});
    AddCompute(p, std::move(op), Lane::kCompute, action.from);
  }
}

void Emitter::Emit(const Action& action, const SumNorms&) {
  constexpr auto kKind = program::CollectiveKind::kAllReduce;
  Group all_positions(emits_.size());
  std::iota(all_positions.begin(), all_positions.end(), 0);
  ForGroups([&](int) { return all_positions; },
            [&](const Group& group) {
              std::vector<program::Member> members(group.size());
              for (int p : positions_) {
                const Region all = Region::Whole(builder_.shape(norms_[p]));
                const int64_t bytes = all.elements() * program::SizeInBytes(DType::kF64);
                members[p] = {.uses = {{norms_[p], all, Access::kAccumulate}},
                              .work = {.bytes_read = bytes,
                                       .bytes_written = bytes,
                                       .bytes_sent = BytesSent(kKind, bytes, static_cast<int64_t>(group.size()), p == 0)}};
              }
              builder_.AddCollective(builder_.AddGroup(DevicesAt(group)), {.kind = kKind}, std::move(members), comm_lane_,
                                     action.from);
            });
}

void Emitter::Emit(const Action& action, const OpenGate&) {
  program::UpdateGate gate{.clip_norm = update().clip_norm, .weight_decay = update().weight_decay};
  if (const auto* lars = std::get_if<program::Lars>(&update().optimizer)) gate.trust = lars->trust;
  if (update().decays_weights_alone && gate.trust > 0) {
    for (const GradientBucket& bucket : lowering_.buckets) {
      for (int parameter : bucket.parameters) gate.decays.push_back(DecayOf(parameter));
    }
    gate.adapted = gate.decays;
  }
  for (int p : positions_) {
    AddCompute(p, {gate, {builder_.Read(norms_[p]), builder_.Write(gates_[p]), builder_.Write(trusts_[p])}}, Lane::kCompute,
               action.from);
  }
}

program::Op Emitter::UpdateOp(int bucket) const {
  const Factors rates = FactorsOf(bucket, &Emitter::RateOf), decays = FactorsOf(bucket, &Emitter::DecayOf);
  const double decay = update().weight_decay;
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
  return std::visit(Visitor{rates, decays, decay}, update().optimizer);
}

// That one position updates.
int64_t Emitter::UpdatedElements(int bucket) const {
  return lowering_.LocalElements(lowering_.buckets[bucket]) * UpdatedParts(bucket, 0).size[0] / PartsOf(bucket);
}

void Emitter::Emit(const Action& action, const UpdateParameters& what) {
  const auto members = static_cast<int64_t>(lowering_.buckets[what.bucket].parameters.size());
  const int64_t elements = UpdatedElements(what.bucket);
  const program::Op update_op = UpdateOp(what.bucket);
  const BucketBuffers& bucket = buckets_[what.bucket];
  for (int p : positions_) {
    if (!Updates(what.bucket, p)) continue;
    const Region part = UpdatedParts(what.bucket, p);
    layers::EmittedOp op{.op = update_op, .uses = {builder_.Read(scalars_[p])}, .flops = UpdateFlops(elements)};
    if (!gates_.empty()) {
      op.uses.push_back(builder_.Read(gates_[p]));
      op.uses.push_back({trusts_[p], {{first_norm_[what.bucket]}, {members}}, Access::kRead});
    }
    op.uses.push_back({bucket.gradients[p], part, Access::kRead});
    for (const ByPosition& kept : bucket.kept) op.uses.push_back({kept[p], part, Access::kAccumulate});
    op.uses.push_back({bucket.weights[p], part, Access::kAccumulate});
    AddCompute(p, std::move(op), Lane::kCompute, action.from);
  }
}

void Emitter::Emit(const Action& action, const AverageParameters& what) {
  const BucketBuffers& bucket = buckets_[what.bucket];
  for (int p : positions_) {
    layers::EmittedOp op{.op = program::AverageUpdate{update().average_decay},
                         .flops = 3 * lowering_.LocalElements(lowering_.buckets[what.bucket])};
    if (!gates_.empty()) op.uses.push_back(builder_.Read(gates_[p]));
    op.uses.push_back(builder_.Read(bucket.weights[p]));
    op.uses.push_back(builder_.Accumulate(bucket.averages[p]));
    AddCompute(p, std::move(op), Lane::kCompute, action.from);
  }
}

}  // namespace colonnade::partition
