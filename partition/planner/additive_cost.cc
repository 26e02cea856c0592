#include "partition/planner/additive_cost.h"

#include <algorithm>

#include "layers/traits.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;
using layers::LayerId;

bool Contains(const std::vector<int>& numbers, size_t first, int number) {
  return std::find(numbers.begin() + static_cast<ptrdiff_t>(first), numbers.end(), number) != numbers.end();
}

}  // namespace

AdditiveCost::AdditiveCost(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                           const std::vector<std::vector<StrategyOption>>& options, const CostFunctions& cost,
                           double exposed)
    : graph_(graph),
      mesh_(mesh),
      batch_(global_batch),
      options_(options),
      cost_(cost),
      contents_(ContentsOf(graph, cost)),
      exposed_(exposed),
      terms_of_(graph.nodes.size()) {
  std::vector<std::vector<std::pair<int, size_t>>> readers(graph.nodes.size());
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    AddTerm({node});
    const std::vector<LayerId>& inputs = graph.nodes[node].inputs;
    for (size_t k = 0; k < inputs.size() && contents_.Runs(node); ++k) readers[inputs[k].value].push_back({node, k});
  }
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    const bool is_input = layers::IsInput(graph.nodes[node].layer);
    if (!is_input && !readers[node].empty()) AddValue(node, std::move(readers[node]));
  }
}

void AdditiveCost::AddTerm(std::vector<int> scope) {
  for (int node : scope) terms_of_[node].push_back(static_cast<int>(scopes_.size()));
  scopes_.push_back(std::move(scope));
}

void AdditiveCost::AddValue(int producer, std::vector<std::pair<int, size_t>> readers) {
  std::vector<int> scope = {producer};
  for (const auto& [node, k] : readers) {
    if (scope.back() != node) scope.push_back(node);
  }
  AddTerm(std::move(scope));
  ValueChoices value{.producer = producer,
                     .has_gradient = contents_.HasGradient(producer),
                     .shape = graph_.OutputShape(LayerId{producer}, batch_),
                     .readers = std::move(readers)};
  value.needed.resize(value.readers.size());
  value.gradient_made.resize(value.readers.size());
  for (const StrategyOption& option : options_[producer]) {
    value.made.push_back(value.Number(option.cost.sharding.output));
    value.gradient_needed.push_back(value.Number(option.cost.sharding.output_gradient));
  }
  for (size_t r = 0; r < value.readers.size(); ++r) {
    const auto [node, k] = value.readers[r];
    for (const StrategyOption& option : options_[node]) {
      value.needed[r].push_back(value.Number(option.cost.sharding.inputs[k]));
      value.gradient_made[r].push_back(value.Number(option.cost.sharding.input_gradients[k]));
    }
  }
  values_.push_back(std::move(value));
}

int AdditiveCost::ValueChoices::Number(const TensorPlacement& placement) {
  const auto found = std::find(placements.begin(), placements.end(), placement);
  const int number = static_cast<int>(found - placements.begin());
  if (found == placements.end()) placements.push_back(placement);
  return number;
}

double AdditiveCost::TermCost(int term, const Assignment& assignment) {
  const int nodes = static_cast<int>(graph_.nodes.size());
  return term < nodes ? OfNode(term, assignment[term]) : OfValue(values_[term - nodes], assignment);
}

double AdditiveCost::TotalCost(const Assignment& assignment) {
  double seconds = TransferCost(assignment);
  for (size_t node = 0; node < assignment.size(); ++node) seconds += OfNode(static_cast<int>(node), assignment[node]);
  return seconds;
}

double AdditiveCost::TransferCost(const Assignment& assignment) {
  double seconds = 0;
  for (ValueChoices& value : values_) seconds += OfValue(value, assignment);
  return seconds;
}

std::vector<Factor> AdditiveCost::Factors() {
  std::vector<Factor> factors;
  Assignment assignment(options_.size(), 0);
  for (size_t term = 0; term < scopes_.size(); ++term) {
    const std::vector<int>& scope = scopes_[term];
    Factor& factor = factors.emplace_back(Factor{.scope = scope});
    for (size_t i = scope.size(); i > 0;) {  // in row-major order
      factor.table.push_back(TermCost(static_cast<int>(term), assignment));
      for (i = scope.size(); i > 0; --i) {
        int& option = assignment[scope[i - 1]];
        if (++option < static_cast<int>(options_[scope[i - 1]].size())) break;
        option = 0;
      }
    }
  }
  return factors;
}

double AdditiveCost::OfNode(int node, int option) const {
  const LayerCost& c = options_[node][option].cost;
  return c.compute_sec + c.transfer_sec + exposed_ * c.reduction_sec;
}

double AdditiveCost::OfValue(ValueChoices& value, const Assignment& assignment) {
  const double forward = Forward(value, assignment);
  return value.has_gradient ? forward + Backward(value, assignment) : forward;
}

double AdditiveCost::Forward(ValueChoices& value, const Assignment& assignment) {
  const int made = value.made[assignment[value.producer]];
  std::vector<int> key = {made};
  for (size_t r = 0; r < value.readers.size(); ++r) {
    const int needed = value.needed[r][assignment[value.readers[r].first]];
    if (!Contains(key, 1, needed)) key.push_back(needed);
  }
  // The order counts only where an all-reduce may replace what others read.
  if (PartialAxes(mesh_, value.placements[made]).empty()) std::sort(key.begin() + 1, key.end());
  const auto found = value.forward.find(key);
  if (found != value.forward.end()) return found->second;
  std::vector<TensorPlacement> needed;
  for (size_t i = 1; i < key.size(); ++i) needed.push_back(value.placements[key[i]]);
  return value.forward[key] = CostOfReshards(mesh_, value.placements[made], needed, value.shape, cost_);
}

double AdditiveCost::Backward(ValueChoices& value, const Assignment& assignment) {
  const int needed = value.gradient_needed[assignment[value.producer]];
  std::vector<int> counted;
  double seconds = 0;
  for (size_t r = 0; r < value.readers.size(); ++r) {
    const int made = value.gradient_made[r][assignment[value.readers[r].first]];
    if (Contains(counted, 0, made)) continue;
    counted.push_back(made);
    const auto [known, is_new] = value.backward.try_emplace({made, needed}, 0.0);
    if (is_new) {
      known->second = CostOfReshard(mesh_, value.placements[made], value.placements[needed], value.shape, cost_);
    }
    seconds += known->second;
  }
  return seconds;
}

}  // namespace colonnade::partition
