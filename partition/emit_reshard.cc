// Transfers between devices: how an entry of the resharding table becomes tasks.

#include <utility>

#include "partition/emitter.h"
#include "partition/task_work.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using program::Access;
using program::BufferId;
using program::BufferUse;
using program::Collective;
using program::CollectiveKind;
using program::Member;

// Whether an entry moves sections of the samples.
bool MovesSamples(const ReshardEntry& entry) {
  const Placement& cut = InSections(entry);
  return !cut.sections.empty() && cut.dim == 0;
}

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
  const ReshardEntry& entry = reshard.entry;
  for (int p : positions_) Make(action.outputs[0], p);
  const size_t sections = SectionsOf(entry, builder_.shape(At(action.outputs[0], 0))).size();
  for (size_t section = 0; section < sections; ++section) {
    if (MovesSamples(entry) && action.part.has_value() && static_cast<size_t>(*action.part) != section) continue;
    if (entry.kind == ReshardKind::kSlice) {
      EmitSlice(action, entry, section);
    } else {
      EmitTransfers(action, entry, section);
    }
  }
}

BufferUse Emitter::InputAt(const Action& action, int position, const ReshardEntry& entry, size_t section,
                           Access access) const {
  return SectionAt(action, action.inputs[0].value, position, entry, section, access);
}

BufferUse Emitter::OutputAt(const Action& action, int position, const ReshardEntry& entry, size_t section) const {
  return SectionAt(action, action.outputs[0], position, entry, section, Access::kWrite);
}

// A section of the samples is a part of them.
BufferUse Emitter::SectionAt(const Action& action, ValueId value, int position, const ReshardEntry& entry, size_t section,
                             Access access) const {
  const BufferId buffer = At(value, position);
  BufferUse use{buffer, SectionsOf(entry, builder_.shape(buffer))[section], access};
  if (!MovesSamples(entry)) Cut(action.part, use.region);
  return use;
}

void Emitter::EmitSlice(const Action& action, const ReshardEntry& entry, size_t section) {
  const int dim = DimOf(entry.to);
  for (int p : positions_) {
    BufferUse x = InputAt(action, p, entry, section, Access::kRead);
    const BufferUse y = OutputAt(action, p, entry, section);
    x.region = PartOfBox(std::move(x.region), dim, y.region.size[dim], SlicedPart(mesh_, entry, p));
    AddCompute(p, {program::Copy{}, {x, y}}, program::Lane::kCompute, action.from);
  }
}

void Emitter::EmitTransfers(const Action& action, const ReshardEntry& entry, size_t section) {
  const bool is_exchange = IsExchange(mesh_, entry);
  ForGroups([&](int p) { return ReshardGroup(mesh_, entry, p); },
            [&](const Group& group) {
              if (is_exchange) {
                EmitPair(action, entry, section, group);
              } else {
                EmitCollective(action, entry, section, group);
              }
            });
}

void Emitter::EmitPair(const Action& action, const ReshardEntry& entry, size_t section, const Group& group) {
  const int dim = DimOf(entry.from);
  Member sides[2];
  for (int m = 0; m < 2; ++m) {
    if (!emits_[group[m]]) continue;
    const BufferUse x = InputAt(action, group[m], entry, section, Access::kRead);
    // Both hold parts of equal extents.
    const auto part_of = [&](int member) {
      BufferUse y = OutputAt(action, group[m], entry, section);
      y.region = PartOfBox(std::move(y.region), dim, x.region.size[dim], member);
      return y;
    };
    const int64_t bytes = x.region.elements() * program::SizeInBytes(builder_.buffer(x.buffer).dtype);
    sides[m] = {{x, part_of(1 - m)}, {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = bytes}};
    AddCompute(group[m], {program::Copy{}, {x, part_of(m)}}, copy_lane_, action.from);
  }
  builder_.AddExchange(lowering_.plan.device_at(group[0]), std::move(sides[0]), lowering_.plan.device_at(group[1]),
                       std::move(sides[1]), comm_lane_, action.from);
}

void Emitter::EmitCollective(const Action& action, const ReshardEntry& entry, size_t section, const Group& group) {
  const Collective attributes = AttributesOf(entry);
  const bool in_place = attributes.kind == CollectiveKind::kAllReduce;
  std::vector<Member> members(group.size());
  for (size_t m = 0; m < group.size(); ++m) {
    const int p = group[m];
    if (!emits_[p]) continue;
    const BufferUse x = InputAt(action, p, entry, section, in_place ? Access::kAccumulate : Access::kRead);
    const BufferUse y = OutputAt(action, p, entry, section);
    const int64_t element = program::SizeInBytes(builder_.buffer(x.buffer).dtype);
    const int64_t bytes = element * x.region.elements();
    members[m] = {.uses = {x},
                  .work = {.bytes_read = bytes,
                           .bytes_written = element * y.region.elements(),
                           .bytes_sent = BytesSent(attributes.kind, bytes, static_cast<int64_t>(group.size()))}};
    if (!in_place) members[m].uses.push_back(y);
  }
  builder_.AddCollective(builder_.AddGroup(DevicesAt(group)), attributes, std::move(members), comm_lane_, action.from);
}

}  // namespace colonnade::partition
