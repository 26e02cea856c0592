// What outlives a step, parameters, their gradients and what the optimiser keeps: buckets, their checks and reductions.

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partition/lowering/emission.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::CollectiveKind;
using program::Lifetime;
using program::Member;
using program::Region;

// The attributes in which buckets of weights, of gradients and of momenta differ.
struct BucketRole {
  std::string suffix;  // of names
  Lifetime lifetime;
  bool laid_out_as_weights = false;  // member by member
  bool updated_parts_alone = false;  // holds no parts of the bucket but those that its position updates
};

int MemberIndex(const Lowering& lowering, int bucket, int position) {
  return lowering.plan.mesh.IndexInGroup(position, lowering.buckets[bucket].axes);
}

BufferId AddBucket(Emission& e, int index, int position, const BucketRole& role) {
  const GradientBucket& bucket = e.lowering.buckets[index];
  const ByPosition& weights = e.buckets[index].weights;
  program::Builder::BucketSpec spec{
      .device = e.builder.device_at(position),
      .name = absl::StrCat(bucket.name, role.suffix),
      .dtype = program::MasterType(e.lowering.options.dtype),
      .lifetime = role.lifetime,
      .parts = PartsOf(e.lowering, index),
      .first_part = role.updated_parts_alone ? UpdatedParts(e.lowering, index, position).offset[0] : 0,
      .held_parts =
          role.updated_parts_alone ? UpdatedParts(e.lowering, index, position).size[0] : PartsOf(e.lowering, index),
      .equal_parts = e.lowering.plan.reduction == Reduction::kSharded};
  for (int parameter : bucket.parameters) {
    const ShardedParameter& p = e.lowering.parameters[parameter];
    spec.member_names.push_back(absl::StrCat(p.spec.name, role.suffix));
    spec.member_shapes.push_back(LocalShape(e.builder.mesh(), p.placement, p.spec.shape));
    if (role.laid_out_as_weights) spec.member_layout_as.push_back(e.builder.MemberOf(weights[position], p.member));
  }
  return e.builder.program().AddBucket(spec);
}

// One collective of a bucket in each group, in place in `buffers`: of all of the bucket, or of one part.
struct BucketMove {
  int bucket = 0;
  const ByPosition& buffers;
  CollectiveKind kind;
  std::optional<int> part{};
};

int64_t BytesMoved(const Lowering& lowering, const BucketMove& move) {
  const GradientBucket& bucket = lowering.buckets[move.bucket];
  const int64_t total = lowering.LocalElements(bucket) * program::SizeInBytes(program::MasterType(lowering.options.dtype));
  if (!move.part) return total;
  return total * (*move.part + 1) / bucket.reduction_parts - total * *move.part / bucket.reduction_parts;
}

program::Work WorkOfMember(const BucketMove& move, int64_t bytes, int64_t members, bool is_root) {
  const int64_t held = move.kind == CollectiveKind::kAllGather ? bytes / members : bytes;
  return {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = BytesSent(move.kind, held, members, is_root)};
}

program::Uses UsesOfMember(const Emission& e, const BucketMove& move, int position, bool is_root) {
  using program::Access;
  const BufferId buffer = move.buffers[position];
  const Region region = move.part ? Region{{*move.part}, {1}} : Region{{0}, {PartsOf(e.lowering, move.bucket)}};
  const Region updated = UpdatedParts(e.lowering, move.bucket, position);
  switch (move.kind) {
    case CollectiveKind::kAllReduce:
      return {{buffer, region, Access::kAccumulate}};
    case CollectiveKind::kReduceScatter:
      return {e.builder.Read(buffer), {buffer, updated, Access::kWrite}};
    case CollectiveKind::kAllGather:
      return {{buffer, updated, Access::kRead}, e.builder.Write(buffer)};
    case CollectiveKind::kReduce:
      return {{buffer, region, is_root ? Access::kAccumulate : Access::kRead}};
    case CollectiveKind::kBroadcast:
      return {{buffer, region, is_root ? Access::kRead : Access::kWrite}};
    case CollectiveKind::kAllToAll:
      break;
  }
  std::abort();  // no bucket is moved from all to all
}

void EmitInGroup(Emission& e, const BucketMove& move, const Group& group, const program::Provenance& from) {
  const int64_t bytes = BytesMoved(e.lowering, move);
  const auto member_of = [&](size_t m) -> Member {
    const bool is_root = m == 0;
    return {.uses = UsesOfMember(e, move, group[m], is_root),
            .work = WorkOfMember(move, bytes, static_cast<int64_t>(group.size()), is_root)};
  };
  e.builder.AddCollective(group, {.kind = move.kind}, member_of, from);
}

void EmitMove(Emission& e, const BucketMove& move, const program::Provenance& from) {
  const std::vector<int>& axes = e.lowering.buckets[move.bucket].axes;
  e.builder.ForGroups([&](int position) { return e.builder.mesh().AxesGroup(position, axes); },
                      [&](const Group& group) { EmitInGroup(e, move, group, from); });
}

CollectiveKind KindOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kAllReduce:
      return CollectiveKind::kAllReduce;
    case Reduction::kSharded:
      return CollectiveKind::kReduceScatter;
    case Reduction::kMaster:
      return CollectiveKind::kReduce;
  }
  std::abort();  // there is no other
}

}  // namespace

int64_t PartsOf(const Lowering& lowering, int bucket) {
  const GradientBucket& gradients = lowering.buckets[bucket];
  return lowering.plan.reduction == Reduction::kSharded ? lowering.ReductionSize(gradients) : gradients.reduction_parts;
}

bool Updates(const Lowering& lowering, int bucket, int position) {
  return lowering.plan.reduction != Reduction::kMaster || MemberIndex(lowering, bucket, position) == 0;
}

Region UpdatedParts(const Lowering& lowering, int bucket, int position) {
  if (lowering.plan.reduction != Reduction::kSharded) return {{0}, {PartsOf(lowering, bucket)}};
  return {{MemberIndex(lowering, bucket, position)}, {1}};
}

void AddBuckets(Emission& e) {
  const BucketRole averages{.suffix = absl::StrCat(".", program::Name(program::StateKind::kAverage)),
                            .lifetime = Lifetime::kPersistent,
                            .laid_out_as_weights = true};
  const BucketRole weights{.suffix = e.lowering.options.reads_averages ? averages.suffix : "",
                           .lifetime = Lifetime::kPersistent},
      gradients{.suffix = ".gradient", .lifetime = Lifetime::kStep, .laid_out_as_weights = true};
  std::vector<BucketRole> kept;
  for (program::StateKind kind : program::StateOf(e.update().optimizer)) {
    kept.push_back({.suffix = absl::StrCat(".", program::Name(kind)),
                    .lifetime = Lifetime::kPersistent,
                    .laid_out_as_weights = true,
                    .updated_parts_alone = true});
  }
  for (size_t b = 0; b < e.lowering.buckets.size(); ++b) {
    const int index = static_cast<int>(b);
    BucketBuffers& made = e.buckets.emplace_back();
    made.weights = e.builder.NoBuffers();
    if (e.lowering.train()) {
      made.gradients = e.builder.NoBuffers();
      made.kept.assign(kept.size(), e.builder.NoBuffers());
      if (e.update().average_decay > 0) made.averages = e.builder.NoBuffers();
    }
    for (int p : e.builder.positions()) {
      made.weights[p] = AddBucket(e, index, p, weights);
      if (!e.lowering.train()) continue;
      made.gradients[p] = AddBucket(e, index, p, gradients);
      if (!made.averages.empty()) made.averages[p] = AddBucket(e, index, p, averages);
      for (size_t k = 0; k < kept.size(); ++k) {
        if (Updates(e.lowering, index, p)) made.kept[k][p] = AddBucket(e, index, p, kept[k]);
      }
    }
  }
}

void AddState(Emission& e) {
  for (const ShardedState& state : e.lowering.state) {
    ByPosition& made = e.state.emplace_back(e.builder.NoBuffers());
    for (int p : e.builder.positions()) {
      made[p] = e.builder.AddBuffer(p, state.spec.name, program::MasterType(e.lowering.options.dtype),
                                    LocalShape(e.builder.mesh(), state.placement, state.spec.shape), Lifetime::kPersistent);
    }
  }
}

void Emit(Emission& e, const Action& action, const CheckGradients& check) {
  const GradientBucket& bucket = e.lowering.buckets[check.bucket];
  for (int p : e.builder.positions()) {
    layers::EmittedOp op{.op = program::CheckFinite{}};
    for (int parameter : bucket.parameters) {
      const BufferId gradient =
          e.builder.MemberOf(e.buckets[check.bucket].gradients[p], e.lowering.parameters[parameter].member);
      op.uses.push_back(e.builder.Read(gradient));
      op.uses.push_back({e.flags[p], {{parameter}, {1}}, program::Access::kWrite});
    }
    e.builder.AddCompute(p, std::move(op), program::Lane::kCompute, action.provenance);
  }
}

void Emit(Emission& e, const Action& action, const ReduceGradients& reduce) {
  const BucketMove move = {reduce.bucket, e.buckets[reduce.bucket].gradients, KindOf(e.lowering.plan.reduction),
                           reduce.part};
  EmitMove(e, move, action.provenance);
}

void Emit(Emission& e, const Action& action, const GatherParameters& gather) {
  const bool is_at_master = e.lowering.plan.reduction == Reduction::kMaster;
  const CollectiveKind kind = is_at_master ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather;
  EmitMove(e, {gather.bucket, e.buckets[gather.bucket].weights, kind}, action.provenance);
}

void Emit(Emission& e, const Action& action, const GatherGradients& gather) {
  EmitMove(e, {gather.bucket, e.buckets[gather.bucket].gradients, CollectiveKind::kAllGather}, action.provenance);
}

}  // namespace colonnade::partition
