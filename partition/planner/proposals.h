// The assignments of strategies to layers that an additive cost holds to be the best, on one mesh.
#ifndef COLONNADE_PARTITION_PLANNER_PROPOSALS_H_
#define COLONNADE_PARTITION_PLANNER_PROPOSALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "partition/planner/layer_cost.h"

namespace colonnade::partition {

using Strategies = std::vector<layers::Strategy>;  // by axis

struct StrategyOption {
  Strategies strategies;
  LayerCost cost;
};

// Returns the legal options of each node; an input has one, without strategies.
std::vector<std::vector<StrategyOption>> LegalOptions(const layers::LayerGraph& graph, const Mesh& mesh,
                                                      int64_t global_batch, const CostFunctions& cost);

// Returns the meshes that are searched: one axis of all devices, and every cut into replicas and columns.
std::vector<Mesh> MeshesOf(int devices);

// An index into the options of each node.
using Assignment = std::vector<int>;

// The most entries of a table in the search for the best assignments: a second's work.
inline constexpr int64_t kMostTableEntries = int64_t{1} << 22;

struct Proposals {
  std::vector<Assignment> assignments;  // the best first
  std::vector<double> additive_sec;     // of each
  std::string not_exact;                // why there may be better ones; empty if there are none
};

// Returns the `count` assignments of least additive cost (additive_cost.h), no two of them equal. They are exact, by
// elimination (elimination.h), where the graph's width allows tables of `most_entries`; else local optima of a descent from
// several starts.
Proposals ProposeAssignments(const layers::LayerGraph& graph, const Mesh& mesh, int64_t global_batch,
                             const std::vector<std::vector<StrategyOption>>& options, const CostFunctions& cost,
                             double exposed, int count, int64_t most_entries = kMostTableEntries);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_PROPOSALS_H_
