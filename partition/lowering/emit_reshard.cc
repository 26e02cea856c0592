// Transfers between devices: how an entry of the resharding table becomes tasks.

#include <utility>

#include "partition/lowering/emission.h"
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
  const Placement& cut = SectionedSide(entry);
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

// A section of the samples is a part of them.
BufferUse SectionAt(const Emission& e, const Action& action, ValueId value, int position, const ReshardEntry& entry,
                    size_t section, Access access) {
  const BufferId buffer = e.values.At(value, position);
  BufferUse use{buffer, SectionsOf(entry, e.builder.shape(buffer))[section], access};
  if (!MovesSamples(entry)) CutToPart(e.lowering, action.batch_part, use.region);
  return use;
}

BufferUse InputAt(const Emission& e, const Action& action, int position, const ReshardEntry& entry, size_t section,
                  Access access) {
  return SectionAt(e, action, action.inputs[0].value, position, entry, section, access);
}

BufferUse OutputAt(const Emission& e, const Action& action, int position, const ReshardEntry& entry, size_t section) {
  return SectionAt(e, action, action.outputs[0], position, entry, section, Access::kWrite);
}

void EmitSlice(Emission& e, const Action& action, const ReshardEntry& entry, size_t section) {
  const int dim = DimOf(entry.to);
  for (int p : e.builder.positions()) {
    BufferUse x = InputAt(e, action, p, entry, section, Access::kRead);
    const BufferUse y = OutputAt(e, action, p, entry, section);
    x.region = PartOfBox(std::move(x.region), dim, y.region.size[dim], SlicedPart(e.builder.mesh(), entry, p));
    e.builder.AddCompute(p, {program::Copy{}, {x, y}}, program::Lane::kCompute, action.provenance);
  }
}

void EmitPair(Emission& e, const Action& action, const ReshardEntry& entry, size_t section, const Group& group) {
  const int dim = DimOf(entry.from);
  Member sides[2];
  for (int m = 0; m < 2; ++m) {
    if (!e.builder.emits(group[m])) continue;
    const BufferUse x = InputAt(e, action, group[m], entry, section, Access::kRead);
    // Both hold parts of equal extents.
    const auto part_of = [&](int member) {
      BufferUse y = OutputAt(e, action, group[m], entry, section);
      y.region = PartOfBox(std::move(y.region), dim, x.region.size[dim], member);
      return y;
    };
    const int64_t bytes = x.region.elements() * program::SizeInBytes(e.builder.buffer(x.buffer).dtype);
    sides[m] = {{x, part_of(1 - m)}, {.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = bytes}};
    e.builder.AddCopy(group[m], x, part_of(m), action.provenance);
  }
  e.builder.AddExchange(group, std::move(sides[0]), std::move(sides[1]), action.provenance);
}

void EmitCollective(Emission& e, const Action& action, const ReshardEntry& entry, size_t section, const Group& group) {
  const Collective attributes = AttributesOf(entry);
  const bool in_place = attributes.kind == CollectiveKind::kAllReduce;
  const auto member_of = [&](size_t m) {
    const int p = group[m];
    const BufferUse x = InputAt(e, action, p, entry, section, in_place ? Access::kAccumulate : Access::kRead);
    const BufferUse y = OutputAt(e, action, p, entry, section);
    const int64_t element = program::SizeInBytes(e.builder.buffer(x.buffer).dtype);
    const int64_t bytes = element * x.region.elements();
    Member member{.uses = {x},
                  .work = {.bytes_read = bytes,
                           .bytes_written = element * y.region.elements(),
                           .bytes_sent = BytesSent(attributes.kind, bytes, static_cast<int64_t>(group.size()))}};
    if (!in_place) member.uses.push_back(y);
    return member;
  };
  e.builder.AddCollective(group, attributes, member_of, action.provenance);
}

void EmitTransfers(Emission& e, const Action& action, const ReshardEntry& entry, size_t section) {
  const bool is_exchange = IsExchange(e.builder.mesh(), entry);
  e.builder.ForGroups([&](int p) { return ReshardGroup(e.builder.mesh(), entry, p); },
                      [&](const Group& group) {
                        if (is_exchange) {
                          EmitPair(e, action, entry, section, group);
                        } else {
                          EmitCollective(e, action, entry, section, group);
                        }
                      });
}

}  // namespace

void Emit(Emission& e, const Action& action, const Reshard& reshard) {
  const ReshardEntry& entry = reshard.entry;
  for (int p : e.builder.positions()) e.values.Make(action.outputs[0], p);
  const size_t sections = SectionsOf(entry, e.builder.shape(e.values.At(action.outputs[0], 0))).size();
  for (size_t section = 0; section < sections; ++section) {
    if (MovesSamples(entry) && action.batch_part.has_value() && static_cast<size_t>(*action.batch_part) != section) continue;
    if (entry.kind == ReshardKind::kSlice) {
      EmitSlice(e, action, entry, section);
    } else {
      EmitTransfers(e, action, entry, section);
    }
  }
}

}  // namespace colonnade::partition
