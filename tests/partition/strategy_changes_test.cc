// Changes of neighbouring layers, in exact costs: a compute task costs its flops, a transfer its bytes.
#include "partition/planner/strategy_changes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/planner/additive_cost.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using ::testing::UnorderedElementsAre;

// TwoLayers on two columns, of which none is used yet.
struct ChangedCase {
  layers::LayerGraph graph = TwoLayers();
  Plan plan = PlanOf(graph, 1, 2, {kReplicate, kReplicate});
  CostFunctions cost = {.compute = [](const program::Task& task) { return static_cast<double>(task.work.flops); },
                        .transfer = [](program::CollectiveKind, int, double bytes) { return bytes; }};
  StepCosts costs = {cost, LegalOptions(graph, plan.mesh, 8, cost)};

  double Total(const Plan& of) const {
    Assignment assignment(graph.nodes.size(), 0);
    for (size_t node = 1; node < graph.nodes.size(); ++node) {
      const auto& options = costs.options[node];
      const auto is_of_plan = [&](const StrategyOption& option) {
        return option.strategies == of.layers.at(graph.nodes[node].name);
      };
      assignment[node] = static_cast<int>(std::find_if(options.begin(), options.end(), is_of_plan) - options.begin());
    }
    return AdditiveCost(graph, plan.mesh, 8, costs.options, cost, /*exposed=*/1).TotalCost(assignment);
  }
};

TEST(StrategyChangesOf, AreOfOneToThreeNeighboursThatAllMayHaveTheStrategies) {
  const ChangedCase c;
  std::vector<std::string> changes;
  for (const StrategyChange& change : StrategyChangesOf(c.graph, c.plan, 8, c.costs)) {
    changes.push_back(absl::StrCat(c.graph.nodes[change.first].name, " and ", change.length - 1, ": ",
                                   layers::Name(change.strategies[1])));
  }
  EXPECT_THAT(changes, UnorderedElementsAre("fc1 and 0: batch", "fc1 and 1: batch", "fc1 and 2: batch", "relu and 0: batch",
                                            "relu and 1: batch", "relu and 2: batch", "fc2 and 0: batch", "fc2 and 1: batch",
                                            "loss and 0: batch", "fc1 and 0: column", "fc2 and 0: column", "fc1 and 0: row",
                                            "fc2 and 0: row", "relu and 0: group"));
}

TEST(StrategyChangesOf, AreSortedByWhatTheyAddToTheCost) {
  const ChangedCase c;
  const std::vector<StrategyChange> changes = StrategyChangesOf(c.graph, c.plan, 8, c.costs);
  std::vector<double> added;
  for (const StrategyChange& change : changes) {
    Plan changed = c.plan;
    EXPECT_TRUE(Apply(change, c.graph, changed));
    EXPECT_EQ(change.additive_sec, c.Total(changed) - c.Total(c.plan)) << change.first << " " << change.length;
    added.push_back(change.additive_sec);
  }
  EXPECT_THAT(added, ::testing::WhenSorted(added));
}

TEST(StrategyChangesOf, ArePutIntoThePlan) {
  const ChangedCase c;
  Plan plan = c.plan;
  const StrategyChange change{.first = 1, .length = 2, .strategies = {kReplicate, kBatch}};
  EXPECT_TRUE(Apply(change, c.graph, plan));
  EXPECT_EQ(plan.name, kAutoPlan);
  EXPECT_EQ(plan.layers,
            PlanOf(c.graph, 1, 2, {kReplicate, kReplicate}, {{"fc1", {kReplicate, kBatch}}, {"relu", {kReplicate, kBatch}}})
                .layers);
  plan.name = "by hand";
  EXPECT_FALSE(Apply(change, c.graph, plan));
  EXPECT_EQ(plan.name, "by hand");
}

}  // namespace
}  // namespace colonnade::partition
