// What one layer costs under one strategy per axis, and what lies between two layers: the additive part of planning.
//
// Sums of these ignore overlap and contention, so they propose plans; they do not judge them.
#ifndef COLONNADE_PARTITION_PLANNER_LAYER_COST_H_
#define COLONNADE_PARTITION_PLANNER_LAYER_COST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/graph.h"
#include "partition/mesh.h"
#include "partition/planner.h"
#include "partition/reshard.h"
#include "partition/shardings.h"
#include "partition/step_contents.h"

namespace colonnade::partition {

struct LayerCost {
  NodeSharding sharding;
  double compute_sec = 0;         // all stages that run and the update on one device
  double update_sec = 0;          // the update's part of it
  std::vector<double> stage_sec;  // each stage's part of it; 0 where it does not run
  double transfer_sec = 0;        // between its stages
  double reduction_sec = 0;       // of the gradients of its parameters
};

// Returns what a step runs for which `cost` gives the seconds.
inline StepContents ContentsOf(const layers::LayerGraph& graph, const CostFunctions& cost) {
  return StepContents(graph, cost.mode, cost.frozen_layers);
}

// Returns what a layer costs under one strategy per axis; InvalidArgument or FailedPrecondition where they are not legal.
// `contents` are those of the graph and the cost.
absl::StatusOr<LayerCost> CostOfLayer(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                                      absl::Span<const layers::Strategy> strategies, int64_t global_batch,
                                      const CostFunctions& cost, const StepContents& contents);

// Returns the seconds that it takes to bring a tensor of `shape` from the placement in which it is made to each of those
// `needed`, in their order. As in InsertResharding, an entry of the table that several paths share is done once, and what an
// all-reduce makes replaces what was partial.
double CostOfReshards(const Mesh& mesh, const TensorPlacement& made, absl::Span<const TensorPlacement> needed,
                      const program::Shape& shape, const CostFunctions& cost);
// Does the same for one placement.
double CostOfReshard(const Mesh& mesh, const TensorPlacement& from, const TensorPlacement& to, const program::Shape& shape,
                     const CostFunctions& cost);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_LAYER_COST_H_
