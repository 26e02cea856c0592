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

}  // namespace
}  // namespace colonnade::program
