#include "partition/planner/proposals.h"

#include <set>
#include <utility>

#include "layers/traits.h"
#include "partition/planner/additive_cost.h"
#include "partition/planner/elimination.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;
using layers::LayerId;
using layers::Strategy;

bool IsInput(const LayerGraph& graph, LayerId id) { return layers::IsInput(graph.node(id).layer); }

// Every combination of strategies over the axes; axes of size 1 only replicate.
std::vector<Strategies> Combinations(const Mesh& mesh) {
  std::vector<Strategies> all = {{}};
  for (const program::MeshAxis& axis : mesh.axes) {
    std::vector<Strategies> longer;
    for (const Strategies& prefix : all) {
      for (Strategy strategy : layers::kStrategies) {
        if (axis.size == 1 && strategy != Strategy::kReplicate) continue;
        longer.push_back(prefix);
        longer.back().push_back(strategy);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// One layer at a time to its best option, the others held, until nothing changes.
Assignment Descend(const std::vector<std::vector<StrategyOption>>& options, AdditiveCost& cost, Assignment a) {
  const auto around = [&](int node) {
    double seconds = 0;
    for (int term : cost.TermsOf(node)) seconds += cost.TermCost(term, a);
    return seconds;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int node = 0; node < static_cast<int>(options.size()); ++node) {
      const int before = a[node];
      int best = before;
      double least = around(node);
      for (size_t option = 0; option < options[node].size(); ++option) {
        a[node] = static_cast<int>(option);
        const double seconds = around(node);
        if (seconds < least * (1 - 1e-12)) {
          least = seconds;
          best = a[node];
        }
      }
      a[node] = best;
      changed = changed || best != before;
    }
  }
  return a;
}

// Where descents end that start at each layer's option nearest to one combination for all.
std::vector<Assignment> LocalOptima(const Mesh& mesh, const std::vector<std::vector<StrategyOption>>& options,
                                    AdditiveCost& cost, int count) {
  std::set<std::pair<double, Assignment>> found;
  for (const Strategies& wanted : Combinations(mesh)) {
    Assignment start(options.size(), 0);
    for (size_t node = 0; node < options.size(); ++node) {
      for (size_t option = 0; option < options[node].size(); ++option) {
        if (options[node][option].strategies == wanted) start[node] = static_cast<int>(option);
      }
    }
    Assignment end = Descend(options, cost, std::move(start));
    const double seconds = cost.TotalCost(end);
    found.insert({seconds, std::move(end)});
  }
  std::vector<Assignment> assignments;
  for (const auto& [seconds, assignment] : found) assignments.push_back(assignment);
  if (assignments.size() > static_cast<size_t>(count)) assignments.resize(count);
  return assignments;
}

}  // namespace

std::vector<std::vector<StrategyOption>> LegalOptions(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                                                      const CostFunctions& cost) {
  const std::vector<Strategies> combinations = Combinations(mesh);
  const StepContents contents = ContentsOf(graph, cost);
  std::vector<std::vector<StrategyOption>> options(graph.nodes.size());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const LayerId id{static_cast<int32_t>(node)};
    if (IsInput(graph, id)) {
      options[node].push_back({});
      continue;
    }
    for (const Strategies& strategies : combinations) {
      absl::StatusOr<LayerCost> layer = CostOfLayer(graph, id, mesh, strategies, global_batch, cost, contents);
      if (layer.ok()) options[node].push_back({strategies, *std::move(layer)});
    }
  }
  return options;
}

std::vector<Strategies> LegalStrategies(const LayerGraph& graph, LayerId layer, const Mesh& mesh, int64_t global_batch) {
  std::vector<Strategies> legal;
  for (const Strategies& strategies : Combinations(mesh)) {
    if (ShardNode(graph, layer, mesh, strategies, global_batch).ok()) legal.push_back(strategies);
  }
  return legal;
}

std::vector<Mesh> MeshesOf(int devices) {
  std::vector<Mesh> meshes = {Mesh::ReplicasByColumns(devices, 1)};
  for (int columns = 2; columns < devices; ++columns) {
    if (devices % columns == 0) meshes.push_back(Mesh::ReplicasByColumns(devices / columns, columns));
  }
  return meshes;
}

Proposals ProposeAssignments(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                             const std::vector<std::vector<StrategyOption>>& options, const CostFunctions& cost,
                             double exposed, int count, int64_t most_entries) {
  AdditiveCost additive(graph, mesh, global_batch, options, cost, exposed);
  std::vector<int> sizes;
  for (const std::vector<StrategyOption>& of_node : options) sizes.push_back(static_cast<int>(of_node.size()));
  const absl::StatusOr<std::vector<int>> order = EliminationOrder(sizes, additive.scopes(), most_entries);
  Proposals proposals;
  if (order.ok()) {
    proposals.assignments = LeastAssignments(sizes, additive.Factors(), *order, count);
  } else {
    proposals.assignments = LocalOptima(mesh, options, additive, count);
    proposals.not_exact = std::string(order.status().message());
  }
  for (const Assignment& assignment : proposals.assignments)
    proposals.additive_sec.push_back(additive.TotalCost(assignment));
  return proposals;
}

}  // namespace colonnade::partition
