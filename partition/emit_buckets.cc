// What outlives a step, parameters, their gradients and what the optimiser keeps: buckets, their checks and reductions.

#include <optional>

#include "absl/strings/str_cat.h"
#include "partition/emitter.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::CollectiveKind;
using program::Lifetime;
using program::Member;
using program::Region;

}  // namespace

int64_t Emitter::PartsOf(int bucket) const {
  const GradientBucket& of = lowering_.buckets[bucket];
  return lowering_.plan.reduction == Reduction::kSharded ? lowering_.ReductionSize(of) : of.pieces;
}

int Emitter::MemberIndex(int bucket, int position) const {
  return mesh_.IndexInGroup(position, lowering_.buckets[bucket].axes);
}

bool Emitter::Updates(int bucket, int position) const {
  return lowering_.plan.reduction != Reduction::kMaster || MemberIndex(bucket, position) == 0;
}

// The parts of a bucket that `position` updates.
Region Emitter::UpdatedParts(int bucket, int position) const {
  if (lowering_.plan.reduction != Reduction::kSharded) return {{0}, {PartsOf(bucket)}};
  return {{MemberIndex(bucket, position)}, {1}};
}

BufferId Emitter::MemberBuffer(BufferId bucket, int member) const {
  return std::get<program::Bucket>(builder_.buffer(bucket).storage).members[member];
}

BufferId Emitter::AddBucket(int index, int position, const BucketRole& role) {
  const GradientBucket& bucket = lowering_.buckets[index];
  const ByPosition& weights = buckets_[index].weights;
  program::Builder::BucketSpec spec{
      .device = lowering_.plan.device_at(position),
      .name = absl::StrCat(bucket.name, role.suffix),
      .dtype = MasterType(),
      .lifetime = role.lifetime,
      .parts = PartsOf(index),
      .first_part = role.updated_parts_alone ? UpdatedParts(index, position).offset[0] : 0,
      .held_parts = role.updated_parts_alone ? UpdatedParts(index, position).size[0] : PartsOf(index),
      .equal_parts = lowering_.plan.reduction == Reduction::kSharded};
  for (int parameter : bucket.parameters) {
    const ShardedParameter& p = lowering_.parameters[parameter];
    spec.member_names.push_back(absl::StrCat(p.spec.name, role.suffix));
    spec.member_shapes.push_back(RegionOn(mesh_, p.placement, p.spec.shape, position).size);
    if (role.laid_out_as_weights) spec.member_layout_as.push_back(MemberBuffer(weights[position], p.member));
  }
  return builder_.AddBucket(spec);
}

void Emitter::AddBuckets() {
  const BucketRole averages{.suffix = absl::StrCat(".", program::Name(program::StateKind::kAverage)),
                            .lifetime = Lifetime::kPersistent,
                            .laid_out_as_weights = true};
  const BucketRole weights{.suffix = lowering_.options.reads_averages ? averages.suffix : "",
                           .lifetime = Lifetime::kPersistent},
      gradients{.suffix = ".gradient", .lifetime = Lifetime::kStep, .laid_out_as_weights = true};
  std::vector<BucketRole> kept;
  for (program::StateKind kind : program::StateOf(update().optimizer)) {
    kept.push_back({.suffix = absl::StrCat(".", program::Name(kind)),
                    .lifetime = Lifetime::kPersistent,
                    .laid_out_as_weights = true,
                    .updated_parts_alone = true});
  }
  for (size_t b = 0; b < lowering_.buckets.size(); ++b) {
    const int index = static_cast<int>(b);
    BucketBuffers& made = buckets_.emplace_back();
    made.weights = Nowhere();
    if (lowering_.train()) {
      made.gradients = Nowhere();
      made.kept.assign(kept.size(), Nowhere());
      if (update().average_decay > 0) made.averages = Nowhere();
    }
    for (int p : positions_) {
      made.weights[p] = AddBucket(index, p, weights);
      if (!lowering_.train()) continue;
      made.gradients[p] = AddBucket(index, p, gradients);
      if (!made.averages.empty()) made.averages[p] = AddBucket(index, p, averages);
      for (size_t k = 0; k < kept.size(); ++k) {
        if (Updates(index, p)) made.kept[k][p] = AddBucket(index, p, kept[k]);
      }
    }
  }
}

void Emitter::AddState() {
  for (const ShardedState& state : lowering_.state) {
    ByPosition& made = state_.emplace_back(Nowhere());
    for (int p : positions_) {
      made[p] = builder_.AddBuffer(lowering_.plan.device_at(p), state.spec.name, MasterType(),
                                   RegionOn(mesh_, state.placement, state.spec.shape, p).size, Lifetime::kPersistent);
    }
  }
}

void Emitter::Emit(const Action& action, const CheckGradients& check) {
  const GradientBucket& bucket = lowering_.buckets[check.bucket];
  for (int p : positions_) {
    layers::EmittedOp op{.op = program::CheckFinite{}};
    for (int parameter : bucket.parameters) {
      const BufferId gradient = MemberBuffer(buckets_[check.bucket].gradients[p], lowering_.parameters[parameter].member);
      op.uses.push_back(builder_.Read(gradient));
      op.uses.push_back({flags_[p], {{parameter}, {1}}, program::Access::kWrite});
    }
    AddCompute(p, std::move(op), program::Lane::kCompute, action.from);
  }
}

void Emitter::Emit(const Action& action, const ReduceGradients& reduce) {
  const CollectiveKind kinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kReduce};
  EmitBucketCollective(action, reduce.bucket, buckets_[reduce.bucket].gradients,
                       kinds[static_cast<int>(lowering_.plan.reduction)], reduce.piece);
}

void Emitter::Emit(const Action& action, const GatherParameters& gather) {
  const bool master = lowering_.plan.reduction == Reduction::kMaster;
  EmitBucketCollective(action, gather.bucket, buckets_[gather.bucket].weights,
                       master ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather);
}

void Emitter::Emit(const Action& action, const GatherGradients& gather) {
  EmitBucketCollective(action, gather.bucket, buckets_[gather.bucket].gradients, CollectiveKind::kAllGather);
}

// A collective over each group that reduces bucket `index`, in place in `buffers`: of all of it, or of one piece.
void Emitter::EmitBucketCollective(const Action& action, int index, const ByPosition& buffers, CollectiveKind kind,
                                   std::optional<int> piece) {
  using program::Access;
  const GradientBucket& bucket = lowering_.buckets[index];
  const int64_t total = lowering_.LocalElements(bucket) * program::SizeInBytes(MasterType());
  const int64_t bytes = piece ? total * (*piece + 1) / bucket.pieces - total * *piece / bucket.pieces : total;
  const Region region = piece ? Region{{*piece}, {1}} : Region{{0}, {PartsOf(index)}};
  const auto group_of = [&](int p) { return mesh_.AxesGroup(p, bucket.axes); };
  ForGroups(group_of, [&](const Group& group) {
    const int64_t size = static_cast<int64_t>(group.size());
    std::vector<Member> members(group.size());
    for (size_t m = 0; m < group.size(); ++m) {
      const int p = group[m];
      if (!emits_[p]) continue;
      const bool root = p == group[0];
      const auto all_as = [&](Access access) { return program::BufferUse{buffers[p], region, access}; };
      const auto part_as = [&](Access access) { return program::BufferUse{buffers[p], UpdatedParts(index, p), access}; };
      const int64_t held = kind == CollectiveKind::kAllGather ? bytes / size : bytes;
      Member& member = members[m];
      member.work = {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = BytesSent(kind, held, size, root)};
      switch (kind) {
        case CollectiveKind::kAllReduce:
          member.uses = {all_as(Access::kAccumulate)};
          break;
        case CollectiveKind::kReduceScatter:
          member.uses = {builder_.Read(buffers[p]), part_as(Access::kWrite)};
          break;
        case CollectiveKind::kAllGather:
          member.uses = {part_as(Access::kRead), builder_.Write(buffers[p])};
          break;
        case CollectiveKind::kReduce:
          member.uses = {all_as(root ? Access::kAccumulate : Access::kRead)};
          break;
        case CollectiveKind::kBroadcast:
          member.uses = {all_as(root ? Access::kRead : Access::kWrite)};
          break;
        case CollectiveKind::kAllToAll:
          break;
      }
    }
    builder_.AddCollective(builder_.AddGroup(DevicesAt(group)), {.kind = kind}, std::move(members), comm_lane_, action.from);
  });
}

}  // namespace colonnade::partition
