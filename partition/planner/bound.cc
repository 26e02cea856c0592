#include <algorithm>
#include <limits>
#include <vector>

#include "layers/traits.h"
#include "partition/planner.h"
#include "partition/planner/proposals.h"

namespace colonnade::partition {

double LowerBoundSeconds(const layers::LayerGraph& graph, int devices, int64_t global_batch, const CostFunctions& cost) {
  std::vector<double> least(graph.nodes.size(), std::numeric_limits<double>::infinity());
  for (const Mesh& mesh : MeshesOf(devices)) {
    const auto options = LegalOptions(graph, mesh, global_batch, cost);
    for (size_t node = 0; node < options.size(); ++node) {
      for (const StrategyOption& option : options[node]) {
        least[node] = std::min(least[node], option.cost.compute_sec - option.cost.update_sec);
      }
    }
  }
  double seconds = 0;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (layers::MultipliesWeights(graph.nodes[node].layer)) seconds += least[node];
  }
  return seconds;
}

}  // namespace colonnade::partition
