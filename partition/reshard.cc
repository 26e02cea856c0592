#include "partition/reshard.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace colonnade::partition {
namespace {

using layers::Placement;
using Kind = Placement::Kind;

bool IsGrouped(const Placement& p) { return p.kind != Kind::kSplit && p.groups > 1; }
bool IsWhole(const Placement& p) { return p.kind == Kind::kReplicated && p.groups == 1; }

// Dimensions that a placement cuts.
std::set<int> CutDims(const Placement& p) {
  if (p.kind == Kind::kSplit) return {p.dim};
  if (p.groups > 1) return {1};
  return {};
}

bool Intersect(const std::set<int>& a, const std::set<int>& b) {
  for (int d : a) {
    if (b.contains(d)) return true;
  }
  return false;
}

// The table's direct entries. REQUIRES: `to` is not partial, since nothing becomes that.
std::optional<ReshardKind> DirectEntry(const Placement& from, const Placement& to) {
  if (from.sections != to.sections && Intersect(CutDims(from), CutDims(to))) return std::nullopt;
  if (!from.sections.empty() && !to.sections.empty()) return std::nullopt;
  const bool to_channels = to.kind == Kind::kSplit && to.dim == 1;
  const bool from_channels = from.kind == Kind::kSplit && from.dim == 1;
  if (from.kind == Kind::kSplit) {
    if (to.kind == Kind::kSplit) return ReshardKind::kAllToAll;
    if (IsWhole(to) || (from_channels && to.kind == Kind::kReplicated)) return ReshardKind::kAllGather;
    return std::nullopt;
  }
  if (from.kind == Kind::kReplicated) {
    if (IsWhole(from)) return ReshardKind::kSlice;
    if (to_channels) return ReshardKind::kSlice;
    if (IsWhole(to)) return ReshardKind::kGatherAcrossSubgroups;
    return std::nullopt;
  }
  if (!IsGrouped(from)) {
    if (to.kind == Kind::kSplit) return ReshardKind::kReduceScatter;
    if (IsWhole(to)) return ReshardKind::kAllReduce;
    return std::nullopt;
  }
  if (to_channels) return ReshardKind::kReduceScatter;
  if (to == Placement::Replicated(from.groups)) return ReshardKind::kAllReduce;
  return std::nullopt;
}

// Appends the entries from `from` to `to` on one axis: directly, or through a placement that is nearer to whole. None where
// the table does not lead there.
void AppendPath(int axis, Placement from, const Placement& to, std::vector<ReshardEntry>& path) {
  if (to.kind == Kind::kPartial) return;
  while (from != to) {
    Placement next = to;
    std::optional<ReshardKind> kind = DirectEntry(from, to);
    if (!kind) {
      next = from.kind == Kind::kPartial ? Placement::Replicated(from.groups) : Placement::Replicated();
      kind = DirectEntry(from, next);
      if (!kind) return;
    }
    path.push_back({axis, *kind, from, next});
    from = next;
  }
}

// Axes that must be whole before an axis outside them changes, by axis.
std::vector<bool> AxesToOpen(const Mesh& mesh, const TensorPlacement& from, const TensorPlacement& to) {
  const int count = mesh.axis_count();
  std::vector<bool> open(count, false);
  for (int a = 0; a < count; ++a) {
    if (mesh.axes[a].size == 1 || (from[a] == to[a] && !open[a])) continue;
    std::set<int> changed = CutDims(from[a]);
    changed.merge(CutDims(to[a]));
    for (int b = a + 1; b < count; ++b) {
      if (mesh.axes[b].size > 1 && Intersect(CutDims(from[b]), changed)) open[b] = true;
    }
  }
  return open;
}

}  // namespace

const char* Name(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::kSlice:
      return "slice";
    case ReshardKind::kAllGather:
      return "all_gather";
    case ReshardKind::kGatherAcrossSubgroups:
      return "gather_subgroups";
    case ReshardKind::kAllToAll:
      return "all_to_all";
    case ReshardKind::kReduceScatter:
      return "reduce_scatter";
    case ReshardKind::kAllReduce:
      return "all_reduce";
  }
  return "";
}

std::optional<program::CollectiveKind> CollectiveOf(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::kSlice:
      return std::nullopt;
    case ReshardKind::kAllGather:
    case ReshardKind::kGatherAcrossSubgroups:
      return program::CollectiveKind::kAllGather;
    case ReshardKind::kAllToAll:
      return program::CollectiveKind::kAllToAll;
    case ReshardKind::kReduceScatter:
      return program::CollectiveKind::kReduceScatter;
    case ReshardKind::kAllReduce:
      return program::CollectiveKind::kAllReduce;
  }
  return std::nullopt;
}

std::vector<ReshardEntry> ReshardPath(const Mesh& mesh, TensorPlacement from, const TensorPlacement& to) {
  std::vector<ReshardEntry> path;
  const std::vector<bool> open = AxesToOpen(mesh, from, to);
  for (int a = mesh.axis_count() - 1; a >= 0; --a) {
    if (!open[a]) continue;
    AppendPath(a, from[a], Placement::Replicated(), path);
    from[a] = Placement::Replicated();
  }
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (mesh.axes[a].size > 1) AppendPath(a, from[a], to[a], path);
  }
  return path;
}

int DimOf(const Placement& cut) { return cut.kind == Kind::kSplit ? cut.dim : 1; }

const Placement& SectionedSide(const ReshardEntry& entry) { return entry.from.sections.empty() ? entry.to : entry.from; }

std::vector<program::Region> SectionsOf(const ReshardEntry& entry, const program::Shape& local) {
  const Placement& cut = SectionedSide(entry);
  if (cut.sections.empty()) return {program::Region::Whole(local)};
  const int64_t parts = std::accumulate(cut.sections.begin(), cut.sections.end(), int64_t{0}) / local[cut.dim];
  std::vector<program::Region> boxes;
  int64_t begin = 0;
  for (int64_t section : cut.sections) {
    program::Region& box = boxes.emplace_back(program::Region::Whole(local));
    box.offset[cut.dim] = begin;
    box.size[cut.dim] = section / parts;
    begin += box.size[cut.dim];
  }
  return boxes;
}

program::Region PartOfBox(program::Region box, int dim, int64_t extent, int64_t index) {
  box.size[dim] = extent;
  box.offset[dim] += index * extent;
  return box;
}

int64_t SlicedPart(const Mesh& mesh, const ReshardEntry& entry, int position) {
  const int64_t size = mesh.axes[entry.axis].size, coordinate = mesh.Coordinate(position, entry.axis);
  if (entry.to.kind == Kind::kReplicated) return coordinate / (size / entry.to.groups);
  return coordinate % (size / entry.from.groups);
}

std::vector<int> ReshardGroup(const Mesh& mesh, const ReshardEntry& entry, int position) {
  const int64_t size = mesh.axes[entry.axis].size;
  const int64_t groups = std::max(entry.from.groups, entry.to.groups);
  const int64_t subgroup = size / groups;
  const int64_t coordinate = mesh.Coordinate(position, entry.axis);
  std::vector<int> members;
  if (entry.kind == ReshardKind::kGatherAcrossSubgroups) {
    for (int64_t g = 0; g < groups; ++g)
      members.push_back(mesh.At(position, entry.axis, g * subgroup + coordinate % subgroup));
    return members;
  }
  const int64_t first = coordinate / subgroup * subgroup;
  for (int64_t i = 0; i < subgroup; ++i) members.push_back(mesh.At(position, entry.axis, first + i));
  return members;
}

bool IsExchange(const Mesh& mesh, const ReshardEntry& entry) {
  return CollectiveOf(entry.kind) == program::CollectiveKind::kAllGather && ReshardGroup(mesh, entry, 0).size() == 2;
}

}  // namespace colonnade::partition
