#include "partition/planner/elimination.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

namespace colonnade::partition {
namespace {

using Graph = std::vector<std::set<int>>;  // by variable, those that share a table with it

int MissingPairs(const Graph& graph, int variable) {
  int missing = 0;
  for (int a : graph[variable]) {
    for (int b : graph[variable]) missing += a < b && !graph[a].contains(b);
  }
  return missing;
}

// Its neighbours share a table from now on.
void Remove(int variable, Graph& graph) {
  for (int a : graph[variable]) {
    graph[a].insert(graph[variable].begin(), graph[variable].end());
    graph[a].erase(a);
    graph[a].erase(variable);
  }
}

struct Bucket {
  int variable = 0;
  std::vector<int> scope;  // without the variable
  std::vector<Factor> factors;
};

class Elimination {
 public:
  Elimination(const std::vector<int>& sizes, const std::vector<int>& order)
      : sizes_(sizes), place_(sizes.size()), values_(sizes.size(), 0) {
    for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = i;
    for (int variable : order) buckets_.push_back({.variable = variable});
  }

  void Add(Factor factor) {
    if (factor.scope.empty()) return;  // the same for all assignments
    size_t first = place_[factor.scope[0]];
    for (int variable : factor.scope) first = std::min(first, place_[variable]);
    buckets_[first].factors.push_back(std::move(factor));
  }

  void Eliminate() {
    for (Bucket& bucket : buckets_) {
      std::set<int> scope;
      for (const Factor& factor : bucket.factors) scope.insert(factor.scope.begin(), factor.scope.end());
      scope.erase(bucket.variable);
      bucket.scope.assign(scope.begin(), scope.end());
      Factor message{.scope = bucket.scope};
      message.table.reserve(TableEntries(sizes_, bucket.scope, std::numeric_limits<int32_t>::max()));
      for (int variable : bucket.scope) values_[variable] = 0;
      do {
        const std::vector<double> costs = Costs(bucket);
        message.table.push_back(*std::min_element(costs.begin(), costs.end()));
      } while (Advance(bucket.scope));
      Add(std::move(message));
    }
  }

  std::vector<std::vector<int>> Assign(int count) {
    using Partial = std::pair<double, std::vector<int>>;  // regret, values in the reverse order of elimination
    std::vector<Partial> kept = {{0.0, {}}};
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      std::vector<Partial> longer;
      for (const auto& [regret, assigned] : kept) {
        for (size_t i = 0; i < assigned.size(); ++i) values_[buckets_[buckets_.size() - 1 - i].variable] = assigned[i];
        const std::vector<double> costs = Costs(*bucket);
        const double least = *std::min_element(costs.begin(), costs.end());
        for (int value = 0; value < sizes_[bucket->variable]; ++value) {
          longer.push_back({regret + (costs[value] - least), assigned});
          longer.back().second.push_back(value);
        }
      }
      std::sort(longer.begin(), longer.end());
      if (longer.size() > static_cast<size_t>(count)) longer.resize(count);
      kept = std::move(longer);
    }
    std::vector<std::vector<int>> assignments;
    for (const auto& [regret, assigned] : kept) {
      std::vector<int>& values = assignments.emplace_back(sizes_.size());
      for (size_t i = 0; i < assigned.size(); ++i) values[buckets_[buckets_.size() - 1 - i].variable] = assigned[i];
    }
    return assignments;
  }

 private:
  // The sum of a bucket for each value of its variable, under the values_ of its scope.
  std::vector<double> Costs(const Bucket& bucket) {
    std::vector<double> costs(sizes_[bucket.variable], 0.0);
    for (const Factor& factor : bucket.factors) {
      size_t first = 0, stride = 1;  // of the entries that differ in the bucket's variable alone
      for (int variable : factor.scope) {
        const bool is_own = variable == bucket.variable;
        first = first * sizes_[variable] + (is_own ? 0 : values_[variable]);
        stride = is_own ? 1 : stride * sizes_[variable];
      }
      for (size_t value = 0; value < costs.size(); ++value) costs[value] += factor.table[first + value * stride];
    }
    return costs;
  }

  // Advances the variables of `scope` to their next values in row-major order; returns false behind the last.
  bool Advance(const std::vector<int>& scope) {
    for (size_t i = scope.size(); i-- > 0;) {
      if (++values_[scope[i]] < sizes_[scope[i]]) return true;
      values_[scope[i]] = 0;
    }
    return false;
  }

  const std::vector<int>& sizes_;
  std::vector<size_t> place_;  // of a variable in the order
  std::vector<Bucket> buckets_;
  std::vector<int> values_;
};

}  // namespace

int64_t TableEntries(const std::vector<int>& sizes, const std::vector<int>& scope, int64_t most) {
  int64_t entries = 1;
  for (int variable : scope) {
    entries *= sizes[variable];
    if (entries > most) break;
  }
  return entries;
}

absl::StatusOr<std::vector<int>> EliminationOrder(const std::vector<int>& sizes, const std::vector<std::vector<int>>& scopes,
                                                  int64_t most_entries) {
  Graph graph(sizes.size());
  for (const std::vector<int>& scope : scopes) {
    for (int variable : scope) {
      graph[variable].insert(scope.begin(), scope.end());
      graph[variable].erase(variable);
    }
  }
  std::vector<int> left(sizes.size()), order;
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(left.size() - 1 - i);
  while (!left.empty()) {
    auto next = left.begin();
    int fewest = std::numeric_limits<int>::max();
    for (auto it = left.begin(); it != left.end() && fewest > 0; ++it) {
      const int missing = MissingPairs(graph, *it);
      if (missing < fewest) {
        fewest = missing;
        next = it;
      }
    }
    std::vector<int> scope(graph[*next].begin(), graph[*next].end());
    scope.push_back(*next);
    if (TableEntries(sizes, scope, most_entries) > most_entries) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "expected tables of at most %d entries, found %d variables that share one of more", most_entries, scope.size()));
    }
    Remove(*next, graph);
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

std::vector<std::vector<int>> LeastAssignments(const std::vector<int>& sizes, std::vector<Factor> factors,
                                               const std::vector<int>& order, int count) {
  Elimination elimination(sizes, order);
  for (Factor& factor : factors) elimination.Add(std::move(factor));
  elimination.Eliminate();
  return elimination.Assign(count);
}

}  // namespace colonnade::partition
