#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "layers/traits.h"
#include "partition/planner.h"
#include "partition/planner/layer_cost.h"
#include "partition/planner/proposals.h"
#include "partition/planner/step_costs.h"

namespace colonnade::partition {
namespace {

// Products of one network on one mesh, in so many samples at once.
class LeastProducts {
 public:
  LeastProducts(const layers::LayerGraph& graph, const Mesh& mesh, int64_t samples, int most_parts,
                const CostFunctions& cost)
      : graph_(graph),
        mesh_(mesh),
        samples_(samples),
        most_parts_(most_parts),
        cost_(cost),
        contents_(ContentsOf(graph, cost)) {}

  // Returns infinity where no strategy is legal.
  double Of(layers::LayerId id) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Strategies& strategies : LegalStrategies(graph_, id, mesh_, samples_)) {
      least = std::min(least, Of(id, strategies));
    }
    return least;
  }

 private:
  // Each stage may run in as many parts of the batch as is best for it.
  double Of(layers::LayerId id, const Strategies& strategies) const {
    std::vector<double> of_stage;
    for (int parts = 1; parts <= most_parts_; ++parts) {
      if (samples_ % parts != 0) continue;
      const absl::StatusOr<LayerCost> cost = CostOfLayer(graph_, id, mesh_, strategies, samples_ / parts, cost_, contents_);
      if (!cost.ok()) continue;
      of_stage.resize(cost->stage_sec.size(), std::numeric_limits<double>::infinity());
      for (size_t s = 0; s < of_stage.size(); ++s) of_stage[s] = std::min(of_stage[s], parts * cost->stage_sec[s]);
    }
    return std::accumulate(of_stage.begin(), of_stage.end(), 0.0);
  }

  const layers::LayerGraph& graph_;
  const Mesh& mesh_;
  const int64_t samples_;
  const int most_parts_;
  const CostFunctions& cost_;
  const StepContents contents_;
};

}  // namespace

double LowerBoundSeconds(const layers::LayerGraph& graph, int devices, const LowerOptions& lower, const CostFunctions& cost,
                         int most_transfer_parts) {
  const CostFunctions of_step = OfStep(lower, cost);
  const std::vector<Mesh> meshes = MeshesOf(devices);
  std::vector<LeastProducts> on_mesh;
  for (const Mesh& mesh : meshes) {
    on_mesh.emplace_back(graph, mesh, lower.samples_at_once(), devices > 1 ? most_transfer_parts : 1, of_step);
  }
  double seconds = 0;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!layers::MultipliesWeights(graph.nodes[node].layer)) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const LeastProducts& products : on_mesh) {
      least = std::min(least, products.Of(layers::LayerId{static_cast<int32_t>(node)}));
    }
    seconds += least;
  }
  return static_cast<double>(lower.micro_batches) * seconds;
}

}  // namespace colonnade::partition
