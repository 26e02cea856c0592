#include "partition/mesh.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using program::Region;
using ::testing::ElementsAre;

TEST(Mesh, PositionsAreRowMajorWithTheLastAxisFastest) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 3);
  EXPECT_EQ(mesh.device_count(), 6);
  EXPECT_EQ(mesh.Coordinate(4, 0), 1);
  EXPECT_EQ(mesh.Coordinate(4, 1), 1);
  EXPECT_THAT(mesh.AxesGroup(4, {0}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.AxesGroup(4, {1}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.AxesGroup(4, {0, 1}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(mesh.AxesGroup(4, {}), ElementsAre(4));
  EXPECT_EQ(mesh.At(4, 1, 2), 5);
}

TEST(Mesh, AGroupOverSeveralAxesIsInRowMajorOrder) {
  const Mesh mesh{{{"a", 2}, {"b", 3}, {"c", 2}}};
  EXPECT_THAT(mesh.AxesGroup(9, {0, 2}), ElementsAre(2, 3, 8, 9));
  EXPECT_THAT(mesh.AxesGroup(9, {2, 0}), ElementsAre(2, 3, 8, 9));
  for (const std::vector<int>& axes : {std::vector{0, 2}, {1}, {1, 2}, {}}) {
    for (int p = 0; p < mesh.device_count(); ++p) EXPECT_EQ(mesh.AxesGroup(p, axes)[mesh.IndexInGroup(p, axes)], p);
  }
}

TEST(RegionOn, TwoAxesThatCutOneDimensionNest) {
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  const TensorPlacement placement{Placement::Split(1), Placement::Split(1)};
  for (int p = 0; p < 4; ++p) {
    EXPECT_EQ(RegionOn(mesh, placement, {4, 8}, p), (Region{{0, 2 * p}, {4, 2}}));
  }
}

TEST(RegionOn, GroupsCutChannelsIntoRuns) {
  const Mesh mesh = Mesh::ReplicasByColumns(1, 4);
  const TensorPlacement placement{Placement::Replicated(), Placement::Replicated(2)};
  EXPECT_EQ(RegionOn(mesh, placement, {4, 8}, 1), (Region{{0, 0}, {4, 4}}));
  EXPECT_EQ(RegionOn(mesh, placement, {4, 8}, 2), (Region{{0, 4}, {4, 4}}));
}

TEST(PartialAxes, AreThoseOfSeveralPositionsThatHoldSummands) {
  const Mesh mesh{{{"a", 2}, {"b", 3}, {"c", 1}}};
  const TensorPlacement placement{Placement::Partial(), Placement::Split(0), Placement::Partial()};
  EXPECT_THAT(PartialAxes(mesh, placement), ElementsAre(0));
  EXPECT_THAT(PartialAxes(mesh, {Placement::Replicated(), Placement::Partial(3), Placement::Split(1)}), ElementsAre(1));
}

TEST(LieAlike, IsTrueWhereOnlyAxesOfOnePositionDiffer) {
  const Mesh mesh{{{"a", 2}, {"b", 1}}};
  const TensorPlacement samples = {Placement::Split(0), Placement::Replicated()};
  EXPECT_TRUE(LieAlike(mesh, samples, {Placement::Split(0), Placement::Partial()}));
  EXPECT_FALSE(LieAlike(mesh, samples, {Placement::Split(1), Placement::Replicated()}));
  EXPECT_FALSE(LieAlike(mesh, {Placement::Split(0)}, samples));
}

}  // namespace
}  // namespace colonnade::partition
