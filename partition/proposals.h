// The assignments of strategies to layers that an additive cost holds to be the best, on one mesh.
#ifndef COLONNADE_PARTITION_PROPOSALS_H_
#define COLONNADE_PARTITION_PROPOSALS_H_

#include <vector>

#include "partition/layer_cost.h"

namespace colonnade::partition {

using Strategies = std::vector<layers::Strategy>;  // by axis

struct StrategyOption {
  Strategies strategies;
  LayerCost cost;
};

// The legal options of each node; an input has one, without strategies.
std::vector<std::vector<StrategyOption>> LegalOptions(const layers::LayerGraph& graph, const Mesh& mesh,
                                                      int64_t global_batch, const CostFunctions& cost);

// For each node an index into its options.
using Assignment = std::vector<int>;

// The best `count` assignments and no equal ones, by Σ compute + resharding + `exposed` · reduction. Exact for a chain;
// where the network has joins, the local optima of a descent from several starts.
std::vector<Assignment> ProposeAssignments(const layers::LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                                           const std::vector<std::vector<StrategyOption>>& options,
                                           const CostFunctions& cost, double exposed, int count);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PROPOSALS_H_
