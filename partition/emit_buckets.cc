// What outlives a step, parameters, their gradients and what the optimiser keeps: buckets, their checks and reductions.

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partition/emission.h"
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
    spec.member_shapes.push_back(RegionOn(e.builder.mesh(), p.placement, p.spec.shape, position).size);
    if (role.laid_out_as_weights) spec.member_layout_as.push_back(e.builder.MemberOf(weights[position], p.member));
  }
  return e.builder.program().AddBucket(spec);
}

// A collective over each group that reduces bucket `index`, in place in `buffers`: of all of it, or of one piece.
void EmitBucketCollective(Emission& e, const Action& action, int index, const ByPosition& buffers, CollectiveKind kind,
                          std::optional<int> piece = std::nullopt) {
  using program::Access;
  const GradientBucket& bucket = e.lowering.buckets[index];
  const int64_t total =
      e.lowering.LocalElements(bucket) * program::SizeInBytes(program::MasterType(e.lowering.options.dtype));
  const int64_t bytes = piece ? total * (*piece + 1) / bucket.pieces - total * *piece / bucket.pieces : total;
  const Region region = piece ? Region{{*piece}, {1}} : Region{{0}, {PartsOf(e.lowering, index)}};
  const auto group_of = [&](int p) { return e.builder.mesh().AxesGroup(p, bucket.axes); };
  e.builder.ForGroups(group_of, [&](const Group& group) {
    const int64_t size = static_cast<int64_t>(group.size());
    std::vector<Member> members(group.size());
    for (size_t m = 0; m < group.size(); ++m) {
      const int p = group[m];
      if (!e.builder.emits(p)) continue;
      const bool root = p == group[0];
      const auto all_as = [&](Access access) { return program::BufferUse{buffers[p], region, access}; };
      const auto part_as = [&](Access access) {
        return program::BufferUse{buffers[p], UpdatedParts(e.lowering, index, p), access};
      };
      const int64_t held = kind == CollectiveKind::kAllGather ? bytes / size : bytes;
      Member& member = members[m];
      member.work = {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = BytesSent(kind, held, size, root)};
      switch (kind) {
        case CollectiveKind::kAllReduce:
          member.uses = {all_as(Access::kAccumulate)};
          break;
        case CollectiveKind::kReduceScatter:
          member.uses = {e.builder.Read(buffers[p]), part_as(Access::kWrite)};
          break;
        case CollectiveKind::kAllGather:
          member.uses = {part_as(Access::kRead), e.builder.Write(buffers[p])};
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
    e.builder.AddCollective(group, {.kind = kind}, std::move(members), action.from);
  });
}

}  // namespace

int64_t PartsOf(const Lowering& lowering, int bucket) {
  const GradientBucket& of = lowering.buckets[bucket];
  return lowering.plan.reduction == Reduction::kSharded ? lowering.ReductionSize(of) : of.pieces;
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
    made.weights = e.builder.Nowhere();
    if (e.lowering.train()) {
      made.gradients = e.builder.Nowhere();
      made.kept.assign(kept.size(), e.builder.Nowhere());
      if (e.update().average_decay > 0) made.averages = e.builder.Nowhere();
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
    ByPosition& made = e.state.emplace_back(e.builder.Nowhere());
    for (int p : e.builder.positions()) {
      made[p] =
          e.builder.AddBuffer(p, state.spec.name, program::MasterType(e.lowering.options.dtype),
                              RegionOn(e.builder.mesh(), state.placement, state.spec.shape, p).size, Lifetime::kPersistent);
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
    e.builder.AddCompute(p, std::move(op), program::Lane::kCompute, action.from);
  }
}

void Emit(Emission& e, const Action& action, const ReduceGradients& reduce) {
  const CollectiveKind kinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kReduce};
  EmitBucketCollective(e, action, reduce.bucket, e.buckets[reduce.bucket].gradients,
                       kinds[static_cast<int>(e.lowering.plan.reduction)], reduce.piece);
}

void Emit(Emission& e, const Action& action, const GatherParameters& gather) {
  const bool master = e.lowering.plan.reduction == Reduction::kMaster;
  EmitBucketCollective(e, action, gather.bucket, e.buckets[gather.bucket].weights,
                       master ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather);
}

void Emit(Emission& e, const Action& action, const GatherGradients& gather) {
  EmitBucketCollective(e, action, gather.bucket, e.buckets[gather.bucket].gradients, CollectiveKind::kAllGather);
}

}  // namespace colonnade::partition
