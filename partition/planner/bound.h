// A time that no plan beats: how far a search may still be from the best.
#ifndef COLONNADE_PARTITION_PLANNER_BOUND_H_
#define COLONNADE_PARTITION_PLANNER_BOUND_H_

#include <cstdint>

#include "layers/graph.h"
#include "partition/planner/layer_cost.h"

namespace colonnade::partition {

// Returns a lower bound on the seconds of a step on so many devices: the forward and backward products with weights, one
// after the other, each split over the devices as well as it can be. All else is left out: transfers, updates, and layers
// that others may take into their own kernels.
double LowerBoundSeconds(const layers::LayerGraph& graph, int devices, int64_t global_batch, const CostFunctions& cost);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLANNER_BOUND_H_
