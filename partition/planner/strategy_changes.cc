#include "partition/planner/strategy_changes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "partition/planner/additive_cost.h"

namespace colonnade::partition {
namespace {

constexpr size_t kMostChangedTogether = 3;  // neighbours that change together

std::optional<int> OptionWith(const std::vector<StrategyOption>& options, const Strategies& strategies) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const StrategyOption& option) { return option.strategies == strategies; });
  if (found == options.end()) return std::nullopt;
  return static_cast<int>(found - options.begin());
}

Assignment AssignmentOf(const layers::LayerGraph& graph, const Plan& plan,
                        const std::vector<std::vector<StrategyOption>>& options) {
  Assignment assignment(graph.nodes.size(), 0);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const auto found = plan.layers.find(graph.nodes[node].name);
    if (found != plan.layers.end()) assignment[node] = OptionWith(options[node], found->second).value_or(0);
  }
  return assignment;
}

}  // namespace

std::vector<StrategyChange> StrategyChangesOf(const layers::LayerGraph& graph, const Plan& plan, int64_t samples,
                                              const StepCosts& costs) {
  const std::vector<std::vector<StrategyOption>>& options = costs.options;
  AdditiveCost cost(graph, plan.mesh, samples, options, costs.cost, /*exposed=*/1);
  const Assignment before = AssignmentOf(graph, plan, options);
  std::vector<StrategyChange> found;
  for (size_t first = 0; first < graph.nodes.size(); ++first) {
    for (const StrategyOption& option : options[first]) {
      if (option.strategies.empty()) continue;
      Assignment after = before;
      std::set<int> terms;
      for (size_t length = 1; length <= kMostChangedTogether && first + length <= graph.nodes.size(); ++length) {
        const size_t last = first + length - 1;
        const std::optional<int> same = OptionWith(options[last], option.strategies);
        if (!same.has_value()) break;
        after[last] = *same;
        const auto& terms_of_last = cost.TermsOf(static_cast<int>(last));
        terms.insert(terms_of_last.begin(), terms_of_last.end());
        if (after == before) continue;
        double seconds = 0;
        for (int term : terms) seconds += cost.TermCost(term, after) - cost.TermCost(term, before);
        found.push_back({seconds, first, length, option.strategies});
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const StrategyChange& a, const StrategyChange& b) { return a.additive_sec < b.additive_sec; });
  return found;
}

bool Apply(const StrategyChange& change, const layers::LayerGraph& graph, Plan& plan) {
  bool changes = false;
  for (size_t node = change.first; node < change.first + change.length; ++node) {
    Strategies& of_layer = plan.layers[graph.nodes[node].name];
    changes = changes || of_layer != change.strategies;
    of_layer = change.strategies;
  }
  if (changes) plan.name = kAutoPlan;
  return changes;
}

}  // namespace colonnade::partition
