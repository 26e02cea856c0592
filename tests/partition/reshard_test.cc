#include "partition/reshard.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using program::Region;
using program::Shape;

// What every position holds of a global tensor: for each of its local elements, which global elements are in it and how
// often. A whole element is {id, 0}; a summand of P positions is marked by who holds it, so that a sum shows each summand
// once.
using Cell = absl::InlinedVector<std::pair<int64_t, int>, 2>;  // (global element, summand)
struct Shard {
  Shape shape;
  std::vector<Cell> cells;
};

int64_t Flat(const Shape& shape, const Shape& index) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

template <class F>
void ForEach(const Region& region, F f) {
  Shape index = region.offset;
  for (int64_t i = 0; i < region.elements(); ++i) {
    f(index);
    for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d) {
      if (++index[d] < region.offset[d] + region.size[d]) break;
      index[d] = region.offset[d];
    }
  }
}

// Positions of one axis that hold summands of the same numbers make up all of them; which summand a position holds is its
// coordinate, in a run or on the axis, combined over the partial axes.
int SummandOf(const Mesh& mesh, const TensorPlacement& placement, int position) {
  int summand = 0;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (placement[a].kind != Placement::Kind::kPartial) continue;
    const int64_t run = mesh.axes[a].size / placement[a].groups;
    summand = summand * 16 + 1 + static_cast<int>(mesh.Coordinate(position, a) % run);
  }
  return summand;
}

int SummandCount(const Mesh& mesh, const TensorPlacement& placement) {
  int64_t count = 1;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    if (placement[a].kind == Placement::Kind::kPartial) count *= mesh.axes[a].size / placement[a].groups;
  }
  return static_cast<int>(count);
}

// The m-th of `parts` equal parts of a list, of each section of it where it has some.
std::vector<int64_t> PartOf(const std::vector<int64_t>& list, int64_t m, int64_t parts, std::vector<int64_t> sections = {}) {
  if (sections.empty()) sections = {static_cast<int64_t>(list.size())};
  std::vector<int64_t> part;
  auto section = list.begin();
  for (int64_t size : sections) {
    EXPECT_EQ(size % parts, 0);
    part.insert(part.end(), section + m * size / parts, section + (m + 1) * size / parts);
    section += size;
  }
  EXPECT_EQ(section, list.end());
  return part;
}

// Which indices of each dimension of a global tensor a position holds, in their order: each axis cuts what those before it
// have left.
std::vector<std::vector<int64_t>> IndicesOn(const Mesh& mesh, const TensorPlacement& placement, const Shape& global,
                                            int position) {
  std::vector<std::vector<int64_t>> held(global.size());
  for (size_t d = 0; d < global.size(); ++d) {
    for (int64_t i = 0; i < global[d]; ++i) held[d].push_back(i);
  }
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const Placement& p = placement[a];
    const int64_t size = mesh.axes[a].size, coordinate = mesh.Coordinate(position, a);
    if (p.kind == Placement::Kind::kSplit) {
      held[p.dim] = PartOf(held[p.dim], coordinate, size, p.sections);
    } else {
      held[1] = PartOf(held[1], coordinate / (size / p.groups), p.groups);
    }
  }
  return held;
}

// Calls f(global index) for each element that a position holds, in their order.
template <class F>
void ForEachHeld(const Mesh& mesh, const TensorPlacement& placement, const Shape& global, int position, F f) {
  const std::vector<std::vector<int64_t>> held = IndicesOn(mesh, placement, global, position);
  Shape local;
  for (const std::vector<int64_t>& indices : held) local.push_back(static_cast<int64_t>(indices.size()));
  ForEach(Region::Whole(local), [&](Shape index) {
    for (size_t d = 0; d < index.size(); ++d) index[d] = held[d][index[d]];
    f(index);
  });
}

Shard Initial(const Mesh& mesh, const TensorPlacement& placement, const Shape& global, int position) {
  Shard shard{RegionOn(mesh, placement, global, position).size, {}};
  const int summand = SummandOf(mesh, placement, position);
  ForEachHeld(mesh, placement, global, position, [&](const Shape& index) {
    shard.cells.push_back({{Flat(global, index), summand}});
  });
  return shard;
}

Shard Slice(const Shard& x, const Region& region) {
  if (region == Region::Whole(x.shape)) return x;
  Shard y{region.size, {}};
  ForEach(region, [&](const Shape& index) { y.cells.push_back(x.cells[Flat(x.shape, index)]); });
  return y;
}

Shard Concatenate(const std::vector<Shard>& parts, int dim) {
  if (parts.size() == 1) return parts[0];
  Shard y{parts[0].shape, {}};
  y.shape[dim] = 0;
  for (const Shard& part : parts) y.shape[dim] += part.shape[dim];
  y.cells.resize(program::ElementCount(y.shape));
  int64_t offset = 0;
  for (const Shard& part : parts) {
    ForEach(Region::Whole(part.shape), [&](const Shape& index) {
      Shape to = index;
      to[dim] += offset;
      y.cells[Flat(y.shape, to)] = part.cells[Flat(part.shape, index)];
    });
    offset += part.shape[dim];
  }
  return y;
}

Shard Sum(const std::vector<Shard>& parts) {
  Shard y = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].shape, y.shape);
    for (size_t e = 0; e < y.cells.size(); ++e) {
      y.cells[e].insert(y.cells[e].end(), parts[i].cells[e].begin(), parts[i].cells[e].end());
    }
  }
  return y;
}

Region Part(const Shape& shape, int dim, int64_t member, int64_t members) {
  Region region = Region::Whole(shape);
  region.size[dim] /= members;
  region.offset[dim] = member * region.size[dim];
  return region;
}

// What one entry makes at position p of one section of what the members hold, with the meaning that program/task.h gives the
// collectives.
Shard ApplyTo(const std::vector<Shard>& theirs, int64_t me, const Mesh& mesh, const ReshardEntry& e, int p) {
  const int64_t members = static_cast<int64_t>(theirs.size());
  const int dim_from = e.from.kind == Placement::Kind::kSplit ? e.from.dim : 1;
  const int dim_to = e.to.kind == Placement::Kind::kSplit ? e.to.dim : 1;
  switch (e.kind) {
    case ReshardKind::kSlice: {
      const bool splits = e.to.kind == Placement::Kind::kSplit;
      const int64_t parts = splits ? mesh.axes[e.axis].size / e.from.groups : e.to.groups;
      return Slice(theirs[me], Part(theirs[me].shape, dim_to, SlicedPart(mesh, e, p), parts));
    }
    case ReshardKind::kAllGather:
    case ReshardKind::kGatherAcrossSubgroups:
      return Concatenate(theirs, dim_from);
    case ReshardKind::kAllToAll: {
      std::vector<Shard> parts;
      for (const Shard& t : theirs) parts.push_back(Slice(t, Part(t.shape, dim_to, me, members)));
      return Concatenate(parts, dim_from);
    }
    case ReshardKind::kReduceScatter: {
      const Shard sum = Sum(theirs);
      return Slice(sum, Part(sum.shape, dim_to, me, members));
    }
    case ReshardKind::kAllReduce:
      break;
  }
  return Sum(theirs);
}

// Runs one entry, section by section.
std::vector<Shard> Apply(const Mesh& mesh, const ReshardEntry& e, const std::vector<Shard>& x) {
  std::vector<Shard> y(x.size());
  for (int p = 0; p < mesh.device_count(); ++p) {
    const std::vector<int> group = ReshardGroup(mesh, e, p);
    const int64_t me = std::find(group.begin(), group.end(), p) - group.begin();
    std::vector<Shard> sections;
    for (const Region& section : SectionsOf(e, x[p].shape)) {
      std::vector<Shard> theirs;
      for (int q : group) theirs.push_back(Slice(x[q], section));
      sections.push_back(ApplyTo(theirs, me, mesh, e, p));
    }
    y[p] = Concatenate(sections, SectionedSide(e).dim);
    const std::vector<Region> places = SectionsOf(e, y[p].shape);
    EXPECT_EQ(places.size(), sections.size());
    for (size_t s = 0; s < places.size(); ++s) EXPECT_EQ(places[s].size, sections[s].shape);
  }
  return y;
}

bool Divides(const Mesh& mesh, const TensorPlacement& placement, Shape shape) {
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const Placement& p = placement[a];
    const bool is_split = p.kind == Placement::Kind::kSplit;
    const int64_t parts = is_split ? mesh.axes[a].size : p.groups;
    int64_t& extent = shape[is_split ? p.dim : 1];
    if (extent % parts != 0) return false;
    for (int64_t section : p.sections) {
      if (section % parts != 0) return false;
    }
    extent /= parts;
  }
  return true;
}

// Every pair of placements on meshes of one and two axes: the path ends where it should, and what each position then holds
// is what the placement says, each summand counted once. Sections are those of what the axes before have left.
TEST(Reshard, EveryPathGivesEachPositionWhatThePlacementSays) {
  std::set<std::tuple<std::string, std::string, std::string>> entries;
  const Shape global = {12, 24, kSanitized ? 1 : 2};
  int paths = 0;
  for (const auto& [outer, inner] :
       std::vector<std::pair<int, int>>{{1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 6}, {2, 4}}) {
    const Mesh mesh = Mesh::ReplicasByColumns(outer, inner);
    auto choices = [&](int64_t size, bool target, const Placement& before = {}) {
      std::vector<Placement> all = {Placement::Replicated()};
      if (size == 1) return all;
      all.push_back(Placement::Split(0));
      all.push_back(Placement::Split(1));
      const Shape left = LocalShape(mesh, {before, Placement::Replicated()}, global);
      for (int dim : {0, 1}) {
        if (left[dim] > size) all.push_back(Placement::SplitSections({size, left[dim] - size}, dim));
      }
      for (int64_t g = 2; g < size; ++g) {
        if (size % g == 0) all.push_back(Placement::Replicated(g));
        if (size % g == 0 && !target) all.push_back(Placement::Partial(g));
      }
      if (!target) all.push_back(Placement::Partial());
      return all;
    };
    for (const Placement& f0 : choices(outer, false)) {
      for (const Placement& f1 : choices(inner, false, f0)) {
        for (const Placement& t0 : choices(outer, true)) {
          for (const Placement& t1 : choices(inner, true, t0)) {
            TensorPlacement from{f0, f1};
            const TensorPlacement to{t0, t1};
            if (!Divides(mesh, from, global) || !Divides(mesh, to, global)) continue;
            const std::string what = ToString(from) + " to " + ToString(to);
            const int summands = SummandCount(mesh, from);
            std::vector<Shard> held;
            for (int p = 0; p < mesh.device_count(); ++p) held.push_back(Initial(mesh, from, global, p));
            for (const ReshardEntry& entry : ReshardPath(mesh, from, to)) {
              ASSERT_EQ(entry.from, from[entry.axis]) << what;
              TensorPlacement next = from;
              next[entry.axis] = entry.to;
              held = Apply(mesh, entry, held);
              from = next;
              entries.insert({ToString(TensorPlacement{entry.from}), ToString(TensorPlacement{entry.to}), Name(entry.kind)});
            }
            ++paths;
            for (int p = 0; p < mesh.device_count(); ++p) {
              ASSERT_EQ(held[p].shape, RegionOn(mesh, to, global, p).size) << what << " at " << p;
              size_t e = 0;
              ForEachHeld(mesh, to, global, p, [&](const Shape& index) {
                const Cell& cell = held[p].cells[e++];
                ASSERT_EQ(static_cast<int>(cell.size()), summands) << what << " at " << p;
                for (size_t i = 0; i < cell.size(); ++i) {
                  ASSERT_EQ(cell[i].first, Flat(global, index)) << what << " at " << p;
                  for (size_t j = 0; j < i; ++j) ASSERT_NE(cell[i], cell[j]) << what << " at " << p;
                }
              });
            }
          }
        }
      }
    }
  }
  EXPECT_GT(paths, 500);
  // The direct entries of the table, by kind.
  std::map<std::string, int> by_kind;
  for (const auto& entry : entries) ++by_kind[std::get<2>(entry)];
  for (const char* kind : {"slice", "all_gather", "gather_subgroups", "all_to_all", "reduce_scatter", "all_reduce"}) {
    EXPECT_GT(by_kind[kind], 0) << kind;
  }
}

TEST(Reshard, EqualPlacementsNeedNothing) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const TensorPlacement p{Placement::Split(0), Placement::Split(1)};
  EXPECT_TRUE(ReshardPath(mesh, p, p).empty());
}

// It would be a sum in which each summand counts once for each device.
TEST(Reshard, NothingBecomesPartial) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 4);
  const Placement r = Placement::Replicated();
  for (const Placement& partial : {Placement::Partial(), Placement::Partial(2)}) {
    EXPECT_TRUE(ReshardPath(mesh, {r, partial}, {r, partial}).empty());
    for (const Placement& from : {r, Placement::Split(0), Placement::Split(1), Placement::Replicated(2)}) {
      EXPECT_TRUE(ReshardPath(mesh, {r, from}, {r, partial}).empty()) << layers::ToString(from);
    }
  }
}

TEST(Reshard, OneEntryWhereTheTableHasOne) {
  const Mesh mesh = Mesh::ReplicasByColumns(1, 4);
  const Placement r = Placement::Replicated();
  auto only = [&](const Placement& from, const Placement& to) {
    const auto path = ReshardPath(mesh, {r, from}, {r, to});
    EXPECT_EQ(path.size(), 1u) << layers::ToString(from) << " to " << layers::ToString(to);
    return path.empty() ? ReshardKind::kSlice : path[0].kind;
  };
  EXPECT_EQ(only(Placement::Split(0), r), ReshardKind::kAllGather);
  EXPECT_EQ(only(Placement::Split(1), r), ReshardKind::kAllGather);
  EXPECT_EQ(only(Placement::Split(0), Placement::Split(1)), ReshardKind::kAllToAll);
  EXPECT_EQ(only(Placement::Partial(), Placement::Split(1)), ReshardKind::kReduceScatter);
  EXPECT_EQ(only(Placement::Partial(), r), ReshardKind::kAllReduce);
  EXPECT_EQ(only(r, Placement::Split(1)), ReshardKind::kSlice);
  EXPECT_EQ(only(Placement::Split(1), Placement::Replicated(2)), ReshardKind::kAllGather);
  EXPECT_EQ(only(Placement::Replicated(2), r), ReshardKind::kGatherAcrossSubgroups);
  EXPECT_EQ(only(Placement::Partial(2), Placement::Split(1)), ReshardKind::kReduceScatter);
  const Placement sections = Placement::SplitSections({8, 16});
  EXPECT_EQ(only(sections, r), ReshardKind::kAllGather);
  EXPECT_EQ(only(sections, Placement::Split(0)), ReshardKind::kAllToAll);
  EXPECT_EQ(only(Placement::Split(0), sections), ReshardKind::kAllToAll);
  EXPECT_EQ(only(Placement::Partial(), sections), ReshardKind::kReduceScatter);
  EXPECT_EQ(only(r, sections), ReshardKind::kSlice);
}

TEST(Reshard, SectionsBecomeOtherCutsOfChannelsByWayOfReplicated) {
  const Mesh mesh = Mesh::ReplicasByColumns(1, 4);
  const Placement r = Placement::Replicated(), sections = Placement::SplitSections({8, 16});
  const auto kinds = [&](const Placement& from, const Placement& to) {
    std::string names;
    for (const ReshardEntry& entry : ReshardPath(mesh, {r, from}, {r, to})) names += std::string(Name(entry.kind)) + " ";
    return names;
  };
  EXPECT_EQ(kinds(sections, Placement::Split(1)), "all_gather slice ");
  EXPECT_EQ(kinds(Placement::Split(1), sections), "all_gather slice ");
  EXPECT_EQ(kinds(sections, Placement::SplitSections({16, 8})), "all_gather slice ");
  EXPECT_EQ(kinds(sections, Placement::Replicated(2)), "all_gather slice ");
  EXPECT_EQ(kinds(Placement::Replicated(2), sections), "gather_subgroups slice ");
  EXPECT_EQ(kinds(Placement::Partial(2), sections), "all_reduce gather_subgroups slice ");
}

// An axis cuts within the sections of the one before it, which change only where it is whole.
TEST(Reshard, SectionsOfTwoAxesAreOpenedFromWithin) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const Placement r = Placement::Replicated(), outer = Placement::SplitSections({8, 16}),
                  inner = Placement::SplitSections({4, 8});
  const auto path = ReshardPath(mesh, {outer, inner}, {r, r});
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(path[0], (ReshardEntry{1, ReshardKind::kAllGather, inner, r}));
  EXPECT_EQ(path[1], (ReshardEntry{0, ReshardKind::kAllGather, outer, r}));
}

}  // namespace
}  // namespace colonnade::partition
