// Proposals against every assignment there is, on random networks that are small enough to try them all.
#include "partition/planner/proposals.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/planner/additive_cost.h"
#include "tests/partition/lowering_case.h"
#include "tests/partition/random_case.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using OptionsOfLayers = std::vector<std::vector<StrategyOption>>;

// Fully connected layers and ReLUs; each reads one that was made before, and sums join what nobody has read.
layers::LayerGraph DrawDense(Random& random) {
  layers::GraphBuilder net("dense");
  const auto width = [&] { return Pick<int64_t>(random, {12, 12, 24}); };
  std::vector<layers::LayerId> made = {
      net.FullyConnected("fc0", net.Input("images", {8}), {.out_features = 12, .bias = random() % 2 == 0})};
  std::vector<layers::LayerId> joined = made;  // of 12 features
  const int more = 3;
  for (int i = 1; i <= more; ++i) {
    const layers::LayerId x = Pick(random, made);
    const int64_t features = i == more ? 12 : width();
    made.push_back(net.FullyConnected(absl::StrCat("fc", i), x, {.out_features = features, .bias = random() % 2 == 0}));
    if (features == 12) joined.push_back(made.back());
  }
  layers::LayerId x = joined[0];
  for (size_t i = 1; i < joined.size(); ++i) x = net.Add(absl::StrCat("add", i), {x, joined[i]});
  for (layers::LayerId unread : made) {
    if (std::find(joined.begin(), joined.end(), unread) == joined.end()) {
      x = net.Add(absl::StrCat("join", unread.value),
                  {x, net.FullyConnected(absl::StrCat("narrow", unread.value), unread, {.out_features = 12})});
    }
  }
  net.SoftmaxCrossEntropy("loss", x);
  return Built(std::move(net));
}

// Whole numbers, so that sums are exact.
CostFunctions DrawCost(Random& random) {
  const double rate = Pick<double>(random, {8, 16});
  return {.compute = [](const program::Task&) { return 0.0; },
          .transfer =
              [rate](program::CollectiveKind kind, int members, double bytes) {
                return rate * std::floor(bytes) * (kind == program::CollectiveKind::kAllReduce ? 2 : 1) + members;
              }};
}

// Any compute, dearest where nothing is split: what is best for one layer is seldom what is best beside its neighbours.
OptionsOfLayers DrawOptions(Random& random, const layers::LayerGraph& graph, const Mesh& mesh, const CostFunctions& cost) {
  OptionsOfLayers options = LegalOptions(graph, mesh, 12, cost);
  for (auto& of_node : options) {
    for (StrategyOption& option : of_node) {
      const bool is_split = !option.strategies.empty() && option.strategies[1] != kReplicate;
      option.cost.compute_sec = static_cast<double>(random() % 4000) + (is_split ? 0 : 6000);
    }
  }
  return options;
}

// The least costs of all assignments: node by node, with the terms of which a node is the last.
class EveryAssignment {
 public:
  EveryAssignment(const OptionsOfLayers& options, AdditiveCost& cost, size_t count)
      : options_(options), cost_(cost), count_(count), terms_(options.size()), assignment_(options.size(), 0) {
    for (size_t term = 0; term < cost.scopes().size(); ++term) {
      terms_[cost.scopes()[term].back()].push_back(static_cast<int>(term));
    }
    From(0, 0);
  }
  std::vector<double> LeastCosts() const { return {least_.begin(), least_.end()}; }

 private:
  void From(size_t node, double before) {
    if (node == options_.size()) {
      least_.insert(before);
      if (least_.size() > count_) least_.erase(std::prev(least_.end()));
      return;
    }
    for (size_t option = 0; option < options_[node].size(); ++option) {
      assignment_[node] = static_cast<int>(option);
      double cost = before;
      for (int term : terms_[node]) cost += cost_.TermCost(term, assignment_);
      From(node + 1, cost);
    }
  }

  const OptionsOfLayers& options_;
  AdditiveCost& cost_;
  const size_t count_;
  std::vector<std::vector<int>> terms_;
  Assignment assignment_;
  std::multiset<double> least_;
};

double Combinations(const OptionsOfLayers& options) {
  double product = 1;
  for (const auto& of_node : options) product *= static_cast<double>(of_node.size());
  return product;
}

std::vector<double> CostsOf(const std::vector<Assignment>& assignments, AdditiveCost& cost) {
  std::vector<double> costs;
  for (const Assignment& a : assignments) costs.push_back(cost.TotalCost(a));
  return costs;
}

TEST(ProposeAssignments, AreTheBestOfAllOnNetworksWithJoins) {
  Random random(31);
  int joins = 0, descent_is_wrong = 0;
  for (int draw = 0; draw < Draws(60); ++draw) {
    const layers::LayerGraph graph = DrawDense(random);
    const Mesh mesh = Mesh::ReplicasByColumns(1, Pick<int64_t>(random, {2, 4}));
    const CostFunctions cost = DrawCost(random);
    const OptionsOfLayers options = DrawOptions(random, graph, mesh, cost);
    if (Combinations(options) > 25000) continue;
    AdditiveCost additive(graph, mesh, 12, options, cost, /*exposed=*/1);
    const Proposals exact = ProposeAssignments(graph, mesh, 12, options, cost, /*exposed=*/1, 4);
    EXPECT_EQ(exact.not_exact, "");
    const std::vector<double> costs = CostsOf(exact.assignments, additive);
    EXPECT_EQ(costs, EveryAssignment(options, additive, 4).LeastCosts()) << "draw " << draw;
    EXPECT_EQ(std::set<Assignment>(exact.assignments.begin(), exact.assignments.end()).size(), 4u);
    const Proposals descent = ProposeAssignments(graph, mesh, 12, options, cost, /*exposed=*/1, 4, /*most_entries=*/1);
    EXPECT_NE(descent.not_exact, "");
    const double of_descent = CostsOf(descent.assignments, additive).at(0);
    EXPECT_GE(of_descent, costs.at(0));
    descent_is_wrong += of_descent > costs[0];
    joins += graph.nodes.back().inputs[0].value > 1 && graph.node(graph.nodes.back().inputs[0]).inputs.size() > 1;
  }
  EXPECT_GT(joins, Draws(60) / 3);
  if (!kSanitized) {
    EXPECT_GT(descent_is_wrong, 0) << "no case in which it matters";
  }
}

// A table may hold one entry, so that nothing is proposed but by descent.
TEST(ProposeAssignments, OfDescentsAreCheaperThanWhatDiffersInOneLayer) {
  Random random(33);
  for (int draw = 0; draw < Draws(20); ++draw) {
    const layers::LayerGraph graph = DrawDense(random);
    const Mesh mesh = Mesh::ReplicasByColumns(1, 2);
    const CostFunctions cost = DrawCost(random);
    const OptionsOfLayers options = DrawOptions(random, graph, mesh, cost);
    AdditiveCost additive(graph, mesh, 12, options, cost, /*exposed=*/1);
    const Proposals found = ProposeAssignments(graph, mesh, 12, options, cost, /*exposed=*/1, 4, /*most_entries=*/1);
    ASSERT_FALSE(found.assignments.empty());
    const Proposals first = ProposeAssignments(graph, mesh, 12, options, cost, /*exposed=*/1, 1, /*most_entries=*/1);
    EXPECT_THAT(first.assignments, ::testing::ElementsAre(found.assignments[0]));
    EXPECT_THAT(found.additive_sec, ::testing::WhenSorted(found.additive_sec));
    for (const Assignment& assignment : found.assignments) {
      const double least = additive.TotalCost(assignment);
      for (size_t node = 0; node < options.size(); ++node) {
        Assignment other = assignment;
        for (size_t option = 0; option < options[node].size(); ++option) {
          other[node] = static_cast<int>(option);
          EXPECT_GE(additive.TotalCost(other), least) << "draw " << draw << ", layer " << node;
        }
      }
    }
  }
}

TEST(MeshesOf, HaveTheDevicesOnOneAxisOrOnTwo) {
  const auto sizes = [](int devices) {
    std::vector<std::vector<int64_t>> sizes;
    for (const Mesh& mesh : MeshesOf(devices)) {
      std::vector<int64_t>& of_mesh = sizes.emplace_back();
      for (const program::MeshAxis& axis : mesh.axes) of_mesh.push_back(axis.size);
    }
    return sizes;
  };
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(sizes(12), (Sizes{{12, 1}, {6, 2}, {4, 3}, {3, 4}, {2, 6}}));
  EXPECT_EQ(sizes(3), (Sizes{{3, 1}}));
  EXPECT_EQ(sizes(1), (Sizes{{1, 1}}));
}

// Two convolutions and a pooling read what a ReLU or a concatenation makes: on two axes at most 9·16·16·9 entries.
TEST(ProposeAssignments, TablesAreSmallWhereBranchesMeet) {
  layers::GraphBuilder net("modules");
  auto x = net.Relu("relu", net.Conv2d("conv", net.Input("images", {4, 8, 8}), {.out_channels = 24, .kernel = 3, .pad = 1}));
  for (int m = 0; m < 3; ++m) {
    const auto name = [&](const char* layer) { return absl::StrCat("module", m, ".", layer); };
    const auto conv = [&](const char* layer, layers::LayerId from, int64_t kernel) {
      return net.Relu(name(absl::StrCat(layer, ".relu").c_str()),
                      net.Conv2d(name(layer), from, {.out_channels = 8, .kernel = kernel, .pad = kernel / 2}));
    };
    x = net.Concat(name("concat"), {conv("a", x, 1), conv("c", conv("b", x, 1), 3),
                                    conv("d", net.MaxPool(name("pool"), x, {.kernel = 3, .stride = 1, .pad = 1}), 1)});
  }
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 12}));
  const layers::LayerGraph graph = Built(std::move(net));
  const Mesh mesh = Mesh::ReplicasByColumns(2, 2);
  Random random(32);
  const CostFunctions cost = DrawCost(random);
  const OptionsOfLayers options = DrawOptions(random, graph, mesh, cost);
  const Proposals exact =
      ProposeAssignments(graph, mesh, 12, options, cost, /*exposed=*/1, 6, /*most_entries=*/9 * 16 * 16 * 9);
  EXPECT_EQ(exact.not_exact, "");
  EXPECT_EQ(exact.assignments.size(), 6u);
}

}  // namespace
}  // namespace colonnade::partition
