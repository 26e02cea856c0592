#include "partition/reshard.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using program::Region;
using program::Shape;

// What every position holds of a global tensor: for each of its local elements, which global elements are in it and how
// often. A whole element is {id: 1}; a summand of P positions is marked by who holds it, so that a sum shows each summand
// once.
using Cell = std::map<std::pair<int64_t, int>, int>;  // (global element, summand) → count
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

Shard Initial(const Mesh& mesh, const TensorPlacement& placement, const Shape& global, int position) {
  const Region region = RegionOn(mesh, placement, global, position);
  Shard shard{region.size, {}};
  ForEach(region, [&](const Shape& index) {
    shard.cells.push_back({{{Flat(global, index), SummandOf(mesh, placement, position)}, 1}});
  });
  return shard;
}

Shard Slice(const Shard& x, const Region& region) {
  Shard y{region.size, {}};
  ForEach(region, [&](const Shape& index) { y.cells.push_back(x.cells[Flat(x.shape, index)]); });
  return y;
}

Shard Concatenate(const std::vector<Shard>& parts, int dim) {
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
      for (const auto& [key, count] : parts[i].cells[e]) y.cells[e][key] += count;
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

// Runs one entry with the meaning that program/task.h gives the collectives.
std::vector<Shard> Apply(const Mesh& mesh, const ReshardEntry& e, const std::vector<Shard>& x, const TensorPlacement& from,
                         const TensorPlacement& to, const Shape& global) {
  std::vector<Shard> y(x.size());
  for (int p = 0; p < mesh.device_count(); ++p) {
    const std::vector<int> group = ReshardGroup(mesh, e, p);
    const int64_t me = std::find(group.begin(), group.end(), p) - group.begin();
    const int64_t members = static_cast<int64_t>(group.size());
    std::vector<Shard> theirs;
    for (int q : group) theirs.push_back(x[q]);
    const int dim_from = e.from.kind == Placement::Kind::kSplit ? e.from.dim : 1;
    const int dim_to = e.to.kind == Placement::Kind::kSplit ? e.to.dim : 1;
    switch (e.kind) {
      case ReshardKind::kSlice: {
        Region kept = RegionOn(mesh, to, global, p);
        const Region held = RegionOn(mesh, from, global, p);
        for (size_t d = 0; d < kept.offset.size(); ++d) kept.offset[d] -= held.offset[d];
        y[p] = Slice(x[p], kept);
        break;
      }
      case ReshardKind::kAllGather:
      case ReshardKind::kGatherRuns:
        y[p] = Concatenate(theirs, dim_from);
        break;
      case ReshardKind::kAllToAll: {
        std::vector<Shard> parts;
        for (const Shard& t : theirs) parts.push_back(Slice(t, Part(t.shape, dim_to, me, members)));
        y[p] = Concatenate(parts, dim_from);
        break;
      }
      case ReshardKind::kReduceScatter: {
        const Shard sum = Sum(theirs);
        y[p] = Slice(sum, Part(sum.shape, dim_to, me, members));
        break;
      }
      case ReshardKind::kAllReduce:
        y[p] = Sum(theirs);
        break;
    }
  }
  return y;
}

bool Divides(const Mesh& mesh, const TensorPlacement& placement, const Shape& shape) {
  return LocalShape(mesh, placement, shape).ok();
}

// Every pair of placements on meshes of one and two axes: the path ends where it should, and what each position then holds
// is what the placement says, each summand counted once.
TEST(Reshard, EveryPathGivesEachPositionWhatThePlacementSays) {
  std::set<std::tuple<std::string, std::string, std::string>> entries;
  const Shape global = {12, 24, 2};
  int paths = 0;
  for (const auto& [outer, inner] :
       std::vector<std::pair<int, int>>{{1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 6}, {2, 4}}) {
    const Mesh mesh = Mesh::ReplicasByColumns(outer, inner);
    auto choices = [](int64_t size, bool target) {
      std::vector<Placement> all = {Placement::Replicated()};
      if (size == 1) return all;
      all.push_back(Placement::Split(0));
      all.push_back(Placement::Split(1));
      for (int64_t g = 2; g < size; ++g) {
        if (size % g == 0) all.push_back(Placement::Replicated(g));
        if (size % g == 0 && !target) all.push_back(Placement::Partial(g));
      }
      if (!target) all.push_back(Placement::Partial());
      return all;
    };
    for (const Placement& f0 : choices(outer, false)) {
      for (const Placement& f1 : choices(inner, false)) {
        for (const Placement& t0 : choices(outer, true)) {
          for (const Placement& t1 : choices(inner, true)) {
            TensorPlacement from{f0, f1};
            const TensorPlacement to{t0, t1};
            if (!Divides(mesh, from, global) || !Divides(mesh, to, global)) continue;
            const std::string what = ToString(from) + " to " + ToString(to);
            const int summands = SummandCount(mesh, from);
            std::vector<Shard> held;
            for (int p = 0; p < mesh.device_count(); ++p) held.push_back(Initial(mesh, from, global, p));
            for (const ReshardEntry& entry : PlanReshard(mesh, from, to)) {
              ASSERT_EQ(entry.from, from[entry.axis]) << what;
              TensorPlacement next = from;
              next[entry.axis] = entry.to;
              held = Apply(mesh, entry, held, from, next, global);
              from = next;
              entries.insert({ToString(TensorPlacement{entry.from}), ToString(TensorPlacement{entry.to}), Name(entry.kind)});
            }
            ++paths;
            for (int p = 0; p < mesh.device_count(); ++p) {
              const Region expected = RegionOn(mesh, to, global, p);
              ASSERT_EQ(held[p].shape, expected.size) << what << " at " << p;
              size_t e = 0;
              ForEach(expected, [&](const Shape& index) {
                const Cell& cell = held[p].cells[e++];
                ASSERT_EQ(static_cast<int>(cell.size()), summands) << what << " at " << p;
                for (const auto& [key, count] : cell) {
                  ASSERT_EQ(key.first, Flat(global, index)) << what << " at " << p;
                  ASSERT_EQ(count, 1) << what << " at " << p;
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
  for (const char* kind : {"slice", "all_gather", "gather_runs", "all_to_all", "reduce_scatter", "all_reduce"}) {
    EXPECT_GT(by_kind[kind], 0) << kind;
  }
}

TEST(Reshard, EqualPlacementsNeedNothing) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const TensorPlacement p{Placement::Split(0), Placement::Split(1)};
  EXPECT_TRUE(PlanReshard(mesh, p, p).empty());
}

TEST(Reshard, OneEntryWhereTheTableHasOne) {
  const Mesh mesh = Mesh::ReplicasByColumns(1, 4);
  const Placement r = Placement::Replicated();
  auto only = [&](const Placement& from, const Placement& to) {
    const auto path = PlanReshard(mesh, {r, from}, {r, to});
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
  EXPECT_EQ(only(Placement::Replicated(2), r), ReshardKind::kGatherRuns);
  EXPECT_EQ(only(Placement::Partial(2), Placement::Split(1)), ReshardKind::kReduceScatter);
}

}  // namespace
}  // namespace colonnade::partition
