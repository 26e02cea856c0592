#include "partition/proposals.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "layers/traits.h"

namespace colonnade::partition {
namespace {

using layers::LayerGraph;
using layers::LayerId;
using layers::Strategy;

constexpr Strategy kAll[] = {Strategy::kReplicate, Strategy::kBatch, Strategy::kColumn, Strategy::kGroup, Strategy::kRow};

bool IsInput(const LayerGraph& graph, LayerId id) { return layers::TraitsOf(graph.node(id).layer).is_input; }

// Every combination of strategies over the axes; axes of size 1 only replicate.
std::vector<Strategies> Combinations(const Mesh& mesh) {
  std::vector<Strategies> all = {{}};
  for (const program::MeshAxis& axis : mesh.axes) {
    std::vector<Strategies> longer;
    for (const Strategies& prefix : all) {
      for (Strategy strategy : kAll) {
        if (axis.size == 1 && strategy != Strategy::kReplicate) continue;
        longer.push_back(prefix);
        longer.back().push_back(strategy);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Sums over an assignment, from tables of edges that are filled as they are asked for.
class AdditiveCost {
 public:
  AdditiveCost(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
               const std::vector<std::vector<StrategyOption>>& options, const CostFunctions& cost, double exposed)
      : graph_(graph), mesh_(mesh), batch_(global_batch), options_(options), cost_(cost), exposed_(exposed) {}

  double OfNode(int node, int option) const {
    const LayerCost& c = options_[node][option].cost;
    return c.compute_sec + c.transfer_sec + exposed_ * c.reduction_sec;
  }

  // Between a node and the k-th of its producers: values forward, gradients backward.
  double OfEdge(int node, size_t k, int producer_option, int option) {
    const LayerId producer = graph_.nodes[node].inputs[k];
    if (IsInput(graph_, producer)) return 0;  // images are loaded as each layer needs them
    const auto key = std::make_tuple(node, k, producer_option, option);
    const auto found = edges_.find(key);
    if (found != edges_.end()) return found->second;
    const NodeSharding& from = options_[producer.value][producer_option].cost.sharding;
    const NodeSharding& to = options_[node][option].cost.sharding;
    const program::Shape shape = graph_.OutputShape(producer, batch_);
    const double seconds = CostOfReshard(mesh_, from.output, to.inputs[k], shape, cost_) +
                           CostOfReshard(mesh_, to.input_gradients[k], from.output_gradient, shape, cost_);
    return edges_[key] = seconds;
  }

  double OfNodeAndInputs(int node, const Assignment& a) {
    double seconds = OfNode(node, a[node]);
    for (size_t k = 0; k < graph_.nodes[node].inputs.size(); ++k) {
      seconds += OfEdge(node, k, a[graph_.nodes[node].inputs[k].value], a[node]);
    }
    return seconds;
  }
  double OfAll(const Assignment& a) {
    double seconds = 0;
    for (size_t node = 0; node < graph_.nodes.size(); ++node) seconds += OfNodeAndInputs(static_cast<int>(node), a);
    return seconds;
  }

 private:
  const LayerGraph& graph_;
  const Mesh& mesh_;
  const int64_t batch_;
  const std::vector<std::vector<StrategyOption>>& options_;
  const CostFunctions& cost_;
  const double exposed_;
  std::map<std::tuple<int, size_t, int, int>, double> edges_;
};

bool IsChain(const LayerGraph& graph) {
  for (size_t node = 1; node < graph.nodes.size(); ++node) {
    if (graph.nodes[node].inputs.size() != 1 || graph.nodes[node].inputs[0].value != static_cast<int>(node) - 1)
      return false;
  }
  return true;
}

using Path = std::pair<double, Assignment>;

// The `count` best paths to every option of every node, node by node.
std::vector<Assignment> BestPaths(const LayerGraph& graph, const std::vector<std::vector<StrategyOption>>& options,
                                  AdditiveCost& cost, int count) {
  std::vector<std::vector<Path>> best(1, {{0.0, {0}}});  // by option of the node reached
  for (size_t node = 1; node < graph.nodes.size(); ++node) {
    std::vector<std::vector<Path>> next(options[node].size());
    for (size_t option = 0; option < options[node].size(); ++option) {
      std::vector<Path>& paths = next[option];
      for (size_t before = 0; before < best.size(); ++before) {
        const double action = cost.OfNode(static_cast<int>(node), static_cast<int>(option)) +
                              cost.OfEdge(static_cast<int>(node), 0, static_cast<int>(before), static_cast<int>(option));
        for (const Path& path : best[before]) {
          paths.push_back({path.first + action, path.second});
          paths.back().second.push_back(static_cast<int>(option));
        }
      }
      const size_t keep = std::min(paths.size(), static_cast<size_t>(count));
      std::partial_sort(paths.begin(), paths.begin() + keep, paths.end());
      paths.resize(keep);
    }
    best = std::move(next);
  }
  std::vector<Path> all;
  for (std::vector<Path>& paths : best) all.insert(all.end(), paths.begin(), paths.end());
  std::sort(all.begin(), all.end());
  std::vector<Assignment> assignments;
  for (Path& path : all) {
    if (static_cast<int>(assignments.size()) < count) assignments.push_back(std::move(path.second));
  }
  return assignments;
}

// One layer at a time to its best option, its neighbours held, until nothing changes.
Assignment Descend(const LayerGraph& graph, const std::vector<std::vector<StrategyOption>>& options, AdditiveCost& cost,
                   Assignment a) {
  std::vector<std::vector<int>> readers(graph.nodes.size());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (LayerId input : graph.nodes[node].inputs) readers[input.value].push_back(static_cast<int>(node));
  }
  const auto around = [&](int node) {
    double seconds = cost.OfNodeAndInputs(node, a);
    for (int reader : readers[node]) seconds += cost.OfNodeAndInputs(reader, a);
    return seconds;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t node = 1; node < graph.nodes.size(); ++node) {
      const int before = a[node];
      int best = before;
      double least = around(static_cast<int>(node));
      for (size_t option = 0; option < options[node].size(); ++option) {
        a[node] = static_cast<int>(option);
        const double seconds = around(static_cast<int>(node));
        if (seconds < least * (1 - 1e-12)) least = seconds, best = a[node];
      }
      a[node] = best;
      changed = changed || best != before;
    }
  }
  return a;
}

}  // namespace

std::vector<std::vector<StrategyOption>> LegalOptions(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                                                      const CostFunctions& cost) {
  const std::vector<Strategies> combinations = Combinations(mesh);
  std::vector<std::vector<StrategyOption>> options(graph.nodes.size());
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const LayerId id{static_cast<int32_t>(node)};
    if (IsInput(graph, id)) {
      options[node].push_back({});
      continue;
    }
    for (const Strategies& strategies : combinations) {
      absl::StatusOr<LayerCost> layer = CostOfLayer(graph, id, mesh, strategies, global_batch, cost);
      if (layer.ok()) options[node].push_back({strategies, *std::move(layer)});
    }
  }
  return options;
}

std::vector<Assignment> ProposeAssignments(const LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                                           const std::vector<std::vector<StrategyOption>>& options,
                                           const CostFunctions& cost, double exposed, int count) {
  AdditiveCost additive(graph, mesh, global_batch, options, cost, exposed);
  if (IsChain(graph)) return BestPaths(graph, options, additive, count);
  // Starts: each layer's option nearest to one combination for all.
  std::set<Assignment> found;
  for (const Strategies& wanted : Combinations(mesh)) {
    Assignment start(graph.nodes.size(), 0);
    for (size_t node = 0; node < graph.nodes.size(); ++node) {
      for (size_t option = 0; option < options[node].size(); ++option) {
        if (options[node][option].strategies == wanted) start[node] = static_cast<int>(option);
      }
    }
    found.insert(Descend(graph, options, additive, std::move(start)));
  }
  std::vector<Assignment> assignments(found.begin(), found.end());
  std::stable_sort(assignments.begin(), assignments.end(),
                   [&](const Assignment& a, const Assignment& b) { return additive.OfAll(a) < additive.OfAll(b); });
  if (static_cast<int>(assignments.size()) > count) assignments.resize(count);
  return assignments;
}

}  // namespace colonnade::partition
