// A time that no plan beats: how far a search may still be from the best.
#ifndef COLONNADE_PARTITION_BOUND_H_
#define COLONNADE_PARTITION_BOUND_H_

#include <cstdint>

#include "layers/graph.h"
#include "partition/layer_cost.h"

namespace colonnade::partition {

// Seconds of a step on `devices` of them that no plan goes below: forward and backward of the products with weights, one
// behind the other on a device, each split over the devices as suits it best. All else is left out: transfers, updates, and
// layers that others may take into their own kernels.
double LeastSecondsOf(const layers::LayerGraph& graph, int devices, int64_t global_batch, const CostFunctions& cost);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_BOUND_H_
