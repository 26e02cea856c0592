// Elimination against every assignment there is, on costs that are small whole numbers: sums are exact and many are equal.
#include "partition/planner/elimination.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Random = std::mt19937_64;
using Scopes = std::vector<std::vector<int>>;

int64_t EntriesOf(const std::vector<int>& sizes, const std::vector<int>& scope) {
  int64_t entries = 1;
  for (int variable : scope) entries *= sizes[variable];
  return entries;
}

Scopes ScopesOf(const std::vector<Factor>& factors) {
  Scopes scopes;
  for (const Factor& factor : factors) scopes.push_back(factor.scope);
  return scopes;
}

double CostOf(const std::vector<int>& sizes, const std::vector<Factor>& factors, const std::vector<int>& values) {
  double cost = 0;
  for (const Factor& factor : factors) {
    size_t entry = 0;
    for (int variable : factor.scope) entry = entry * sizes[variable] + values[variable];
    cost += factor.table[entry];
  }
  return cost;
}

// All assignments by cost, then by the values of the variable that is eliminated last, of the last but one and so on.
std::vector<std::vector<int>> AllByCost(const std::vector<int>& sizes, const std::vector<Factor>& factors,
                                        const std::vector<int>& order) {
  std::vector<std::pair<double, std::vector<int>>> keys;
  std::vector<int> values(sizes.size(), 0);
  const std::vector<int> reversed(order.rbegin(), order.rend());
  for (int64_t i = 0; i < std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); ++i) {
    int64_t rest = i;
    for (size_t v = 0; v < sizes.size(); ++v) values[v] = static_cast<int>(rest % sizes[v]), rest /= sizes[v];
    auto& [cost, in_order] = keys.emplace_back(CostOf(sizes, factors, values), std::vector<int>());
    for (int variable : reversed) in_order.push_back(values[variable]);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::vector<int>> all;
  for (const auto& [cost, in_order] : keys) {
    for (size_t i = 0; i < reversed.size(); ++i) values[reversed[i]] = in_order[i];
    all.push_back(values);
  }
  return all;
}

Factor DrawFactor(Random& random, const std::vector<int>& sizes, std::vector<int> scope) {
  Factor factor{.scope = std::move(scope)};
  std::sort(factor.scope.begin(), factor.scope.end());
  for (int64_t i = EntriesOf(sizes, factor.scope); i > 0; --i) factor.table.push_back(static_cast<double>(random() % 6));
  return factor;
}

TEST(LeastAssignments, AreTheFirstOfAllByCost) {
  Random random(11);
  int ties = 0;
  for (int draw = 0; draw < Draws(400); ++draw) {
    std::vector<int> sizes(1 + random() % 6), variables(sizes.size());
    for (int& size : sizes) size = 1 + static_cast<int>(random() % 4);
    std::iota(variables.begin(), variables.end(), 0);
    std::vector<Factor> factors;
    for (size_t f = random() % 9; f > 0; --f) {
      std::shuffle(variables.begin(), variables.end(), random);
      const size_t arity = std::min(variables.size(), random() % 4);
      factors.push_back(DrawFactor(random, sizes, {variables.begin(), variables.begin() + arity}));
    }
    const absl::StatusOr<std::vector<int>> order = EliminationOrder(sizes, ScopesOf(factors), 1 << 12);
    ASSERT_TRUE(order.ok()) << order.status();
    std::vector<std::vector<int>> all = AllByCost(sizes, factors, *order);
    for (int count = 1; count <= 5; ++count) {
      if (all.size() > static_cast<size_t>(count)) {
        ties += CostOf(sizes, factors, all[count]) == CostOf(sizes, factors, all[count - 1]);
      }
      const std::vector<std::vector<int>> first(all.begin(), all.begin() + std::min<size_t>(count, all.size()));
      EXPECT_EQ(LeastAssignments(sizes, factors, *order, count), first) << "draw " << draw << ", count " << count;
    }
  }
  EXPECT_GT(ties, 100) << "too few cases where the order of equal costs decides";
}

TEST(LeastAssignments, AreAllWhereThereAreFewer) {
  EXPECT_THAT(LeastAssignments({2, 1}, {{{0}, {5, 3}}}, {1, 0}, 10), ElementsAre(ElementsAre(1, 0), ElementsAre(0, 0)));
  EXPECT_THAT(LeastAssignments({2, 1}, {{{0}, {5, 3}}}, {1, 0}, 0), ElementsAre());
}

TEST(EliminationOrder, OfAChainIsFromItsEnd) {
  const absl::StatusOr<std::vector<int>> order = EliminationOrder({2, 3, 3, 2}, {{0, 1}, {1, 2}, {2, 3}}, 9);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_THAT(*order, ElementsAre(3, 2, 1, 0));
}

// A ladder of n rungs has width 2 in whichever order its variables are named, and 25^3 entries are enough.
TEST(EliminationOrder, OfBranchesThatJoinHasWidthTwo) {
  Random random(12);
  constexpr int kRungs = 40;
  std::vector<int> names(2 * kRungs);
  std::iota(names.begin(), names.end(), 0);
  std::shuffle(names.begin(), names.end(), random);
  Scopes scopes;
  for (int i = 0; i < kRungs; ++i) {
    scopes.push_back({names[2 * i], names[2 * i + 1]});
    if (i > 0) scopes.push_back({names[2 * i - 2], names[2 * i]}), scopes.push_back({names[2 * i - 1], names[2 * i + 1]});
  }
  const std::vector<int> sizes(2 * kRungs, 25);
  EXPECT_TRUE(EliminationOrder(sizes, scopes, 25 * 25 * 25).ok());
  EXPECT_FALSE(EliminationOrder(sizes, scopes, 25 * 25 * 25 - 1).ok());
}

// Whichever order a square of nine is eliminated in, four variables share a table, though none of the corners has more than
// two neighbours.
TEST(EliminationOrder, NeighboursOfWhatIsEliminatedShareATable) {
  Scopes scopes;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      const int here = 3 * row + column;
      if (column < 2) scopes.push_back({here, here + 1});
      if (row < 2) scopes.push_back({here, here + 3});
    }
  }
  const std::vector<int> sizes(9, 2);
  EXPECT_TRUE(EliminationOrder(sizes, scopes, 16).ok());
  EXPECT_FALSE(EliminationOrder(sizes, scopes, 15).ok());
}

TEST(EliminationOrder, TablesAboveTheBoundAreRefused) {
  const std::vector<int> sizes = {4, 4, 4, 4, 4};
  Scopes pairs;
  for (int a = 0; a < 5; ++a) {
    for (int b = a + 1; b < 5; ++b) pairs.push_back({a, b});
  }
  EXPECT_TRUE(EliminationOrder(sizes, pairs, 1024).ok());
  const absl::Status refused = EliminationOrder(sizes, pairs, 1023).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 1023 entries, found 5 variables"));
  // A product beyond what an integer holds: of its last 64 bits nothing is left.
  const std::vector<int> many(80, 16);
  std::vector<int> all(80);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_THAT(std::string(EliminationOrder(many, {all}, 1 << 22).status().message()), HasSubstr("found 80 variables"));
}

}  // namespace
}  // namespace colonnade::partition
