// Whether a plan and a batch are legal for a network. Pure functions.
#ifndef COLONNADE_PARTITION_LEGALITY_H_
#define COLONNADE_PARTITION_LEGALITY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/graph.h"
#include "partition/plan.h"
#include "partition/shardings.h"
#include "program/program.h"

namespace colonnade::partition {

// Checks a plan's fields, and the plan against a network and a global batch, which may be one of several micro-batches of a
// step: every layer has a legal strategy on each axis, and extents divide. InvalidArgument names layer, axis, expected,
// found and the nearest sizes that work; FailedPrecondition where the global batch does not split, or where a layer needs
// more of the step's than one micro-batch.
absl::Status ValidatePlan(const Plan& plan, const layers::LayerGraph& graph, int64_t global_batch,
                          program::Mode mode = program::Mode::kTrain, int64_t micro_batches = 1);

// Returns the placements of a plan that ValidatePlan accepts, else its error.
absl::StatusOr<GraphSharding> ShardByPlan(const Plan& plan, const layers::LayerGraph& graph, int64_t global_batch,
                                          program::Mode mode, int64_t micro_batches);

// Checks that all layers that the plan names are of the network, and no inputs. InvalidArgument names the layer, and which
// one may have been meant. A part of ValidatePlan.
absl::Status CheckPlanLayers(const Plan& plan, const layers::LayerGraph& graph);

// Returns the largest global batch for which numbers do not overflow under any plan: all its activations together keep
// Verify's bound for one buffer, and its flop can be counted. 0 for a network that is too large for one sample.
int64_t LargestBatch(const layers::LayerGraph& graph);

// Returns FailedPrecondition, which begins "batch: ", for less than 1 and for more than LargestBatch. ValidatePlan,
// NamedPlan, Lower and SearchPlans make this check.
absl::Status CheckBatchSize(const layers::LayerGraph& graph, int64_t global_batch);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LEGALITY_H_
