// Transfers between devices: how an entry of the resharding table becomes tasks.

#include <algorithm>

#include "partition/emitter.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using layers::Operand;
using layers::Placement;
using program::BufferId;
using program::Collective;
using program::CollectiveKind;
using program::Member;
using program::Region;

// The dimension along which an entry gathers or scatters.
int DimOf(const Placement& p) { return p.kind == Placement::Kind::kSplit ? p.dim : 1; }

Collective AttributesOf(const ReshardEntry& entry) {
  const CollectiveKind kind = *CollectiveOf(entry.kind);
  switch (kind) {
    case CollectiveKind::kAllGather:
      return {.kind = kind, .dim_to = DimOf(entry.from)};
    case CollectiveKind::kAllToAll:
      return {.kind = kind, .dim_from = entry.to.dim, .dim_to = entry.from.dim};
    case CollectiveKind::kReduceScatter:
      return {.kind = kind, .dim_to = DimOf(entry.to)};
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
    case CollectiveKind::kBroadcast:
      break;
  }
  return {.kind = kind};
}

}  // namespace

void Emitter::Emit(const Action& action, const Reshard& reshard) {
  for (int p = 0; p < positions_; ++p) Make(action.outputs[0], p);
  if (reshard.entry.kind == ReshardKind::kSlice) return EmitSlice(action);
  const bool gathers = CollectiveOf(reshard.entry.kind) == CollectiveKind::kAllGather;
  for (int p = 0; p < positions_; ++p) {
    const std::vector<int> group = ReshardGroup(mesh_, reshard.entry, p);
    if (group[0] != p) continue;
    if (gathers && group.size() == 2) {
      EmitPair(action, group, DimOf(reshard.entry.from));
    } else {
      EmitCollective(action, reshard.entry, group);
    }
  }
}

void Emitter::EmitSlice(const Action& action) {
  const Value& from = lowering_.value(action.inputs[0].value);
  const Value& to = lowering_.value(action.outputs[0]);
  for (int p = 0; p < positions_; ++p) {
    const Region held = RegionOn(mesh_, from.placement, from.shape, p);
    Region kept = RegionOn(mesh_, to.placement, to.shape, p);
    for (size_t d = 0; d < kept.offset.size(); ++d) kept.offset[d] -= held.offset[d];
    const program::BufferUse part{At(action.inputs[0].value, p), kept, program::Access::kRead};
    AddCompute(p, {program::Copy{}, {part, layers::Write(OperandAt(action.outputs[0], p))}}, program::Lane::kCompute,
               action.from);
  }
}

// An all-gather of two is one two-way exchange, beside which each side copies its own part.
void Emitter::EmitPair(const Action& action, const std::vector<int>& group, int dim) {
  auto part_of = [&](int position, int member) {
    const BufferId x = At(action.inputs[0].value, group[member]), y = At(action.outputs[0], position);
    Region part = Region::Whole(builder_.shape(x));
    part.offset[dim] = member * part.size[dim];
    return program::BufferUse{y, part, program::Access::kWrite};
  };
  Member sides[2];
  for (int m = 0; m < 2; ++m) {
    const Operand x = OperandAt(action.inputs[0].value, group[m]);
    const int64_t bytes = program::ElementCount(x.shape) * program::SizeInBytes(builder_.buffer(x.buffer).dtype);
    sides[m] = {{layers::Read(x), part_of(group[m], 1 - m)},
                {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = bytes}};
    AddCompute(group[m], {program::Copy{}, {layers::Read(x), part_of(group[m], m)}}, copy_lane_, action.from);
  }
  builder_.AddExchange(lowering_.plan.device_at(group[0]), std::move(sides[0]), lowering_.plan.device_at(group[1]),
                       std::move(sides[1]), comm_lane_, action.from);
}

void Emitter::EmitCollective(const Action& action, const ReshardEntry& entry, const std::vector<int>& group) {
  const Collective attributes = AttributesOf(entry);
  std::vector<int> devices;
  std::vector<Member> members;
  for (int p : group) {
    const BufferId x = At(action.inputs[0].value, p), y = At(action.outputs[0], p);
    const int64_t element = program::SizeInBytes(builder_.buffer(x).dtype);
    const int64_t bytes = element * program::ElementCount(builder_.shape(x));
    Member member{.work = {.bytes_read = bytes,
                           .bytes_written = element * program::ElementCount(builder_.shape(y)),
                           .bytes_sent = BytesSent(attributes.kind, bytes, static_cast<int64_t>(group.size()))}};
    if (attributes.kind == CollectiveKind::kAllReduce) {
      member.uses = {builder_.Accumulate(x)};
    } else {
      member.uses = {builder_.Read(x), builder_.Write(y)};
    }
    devices.push_back(lowering_.plan.device_at(p));
    members.push_back(std::move(member));
  }
  builder_.AddCollective(builder_.AddGroup(devices), attributes, std::move(members), comm_lane_, action.from);
}

}  // namespace colonnade::partition
