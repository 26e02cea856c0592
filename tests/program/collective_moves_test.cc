#include "program/collective_moves.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;

std::vector<int> SourcesOf(const std::vector<BoxMove>& moves, int target) {
  std::vector<int> sources;
  for (const BoxMove& move : moves) {
    if (move.target.member == target) sources.push_back(move.sources[0].member);
  }
  return sources;
}

// Copies of a member run one after the other: where all begin with member 0, its link serves all of them and the others
// idle.
TEST(TakeSourcesInTurn, EachMemberBeginsWithAnother) {
  const Shape x = {2, 4}, y = {8, 4};
  const auto shape_of = [&](int, int use) -> const Shape& { return use == 0 ? x : y; };
  std::vector<BoxMove> moves = MovesOf({.kind = CollectiveKind::kAllGather, .dim_to = 0}, 4, shape_of);
  EXPECT_THAT(SourcesOf(moves, 2), ElementsAre(0, 1, 2, 3));
  TakeSourcesInTurn(moves, 4);
  ASSERT_EQ(moves.size(), 16u);
  EXPECT_THAT(SourcesOf(moves, 0), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(SourcesOf(moves, 2), ElementsAre(3, 0, 1, 2));
  for (const BoxMove& move : moves) EXPECT_EQ(move.target.region.offset[0], 2 * move.sources[0].member);
}

TEST(TakeSourcesInTurn, SumsKeepTheOrderOfTheirSources) {
  const Shape x = {8, 4}, y = {2, 4};
  const auto shape_of = [&](int, int use) -> const Shape& { return use == 0 ? x : y; };
  std::vector<BoxMove> moves = MovesOf({.kind = CollectiveKind::kReduceScatter, .dim_to = 0}, 4, shape_of);
  TakeSourcesInTurn(moves, 4);
  ASSERT_EQ(moves.size(), 4u);
  for (int target = 0; target < 4; ++target) {
    EXPECT_EQ(moves[target].target.member, target);
    for (int source = 0; source < 4; ++source) EXPECT_EQ(moves[target].sources[source].member, source);
  }
}

// Of [4,2] each of two members sends half of the first dimension, and joins what comes along the second.
TEST(MovesOf, AnAllToAllCutsTheSourceAndJoinsAtTheTarget) {
  const Shape x = {4, 2}, y = {2, 4};
  const auto shape_of = [&](int, int use) -> const Shape& { return use == 0 ? x : y; };
  const Collective collective{.kind = CollectiveKind::kAllToAll, .dim_from = 0, .dim_to = 1};
  const std::vector<BoxMove> moves = MovesOf(collective, 2, shape_of);
  ASSERT_EQ(moves.size(), 4u);
  for (int target : {0, 1}) {
    for (int source : {0, 1}) {
      const BoxMove& move = moves[2 * target + source];
      EXPECT_EQ(move.target.member, target);
      EXPECT_EQ(move.sources[0].member, source);
      EXPECT_EQ(move.sources[0].region, (Region{{2 * target, 0}, {2, 2}}));
      EXPECT_EQ(move.target.region, (Region{{0, 2 * source}, {2, 2}}));
    }
  }
}

TEST(MovesOf, OfReduceAndBroadcastLeadToTheRootAndFromIt) {
  const Shape x = {4};
  const auto shape_of = [&](int, int) -> const Shape& { return x; };
  const std::vector<BoxMove> sum = MovesOf({.kind = CollectiveKind::kReduce, .root = 1}, 3, shape_of);
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_EQ(sum[0].target.member, 1);
  EXPECT_EQ(sum[0].sources.size(), 3u);
  const std::vector<BoxMove> copies = MovesOf({.kind = CollectiveKind::kBroadcast, .root = 1}, 3, shape_of);
  EXPECT_THAT(SourcesOf(copies, 0), ElementsAre(1));
  EXPECT_THAT(SourcesOf(copies, 1), ElementsAre());
  EXPECT_THAT(SourcesOf(copies, 2), ElementsAre(1));
}

TEST(CutsOperands, AreGathersScattersAndAllToAll) {
  for (CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    EXPECT_TRUE(CutsOperands(kind)) << Name(kind);
  }
  for (CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kReduce, CollectiveKind::kBroadcast}) {
    EXPECT_FALSE(CutsOperands(kind)) << Name(kind);
  }
}

}  // namespace
}  // namespace colonnade::program
