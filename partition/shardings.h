// What a plan makes of each layer of a network: the placements of its tensors on every axis of the mesh.
//
// Axes compose: a layer is spread over the first axis, and what is left of it on one device over the next.
#ifndef COLONNADE_PARTITION_SHARDINGS_H_
#define COLONNADE_PARTITION_SHARDINGS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/graph.h"
#include "partition/mesh.h"
#include "partition/plan.h"

namespace colonnade::partition {

// What a plan makes of a layer: its stages, and layers::Sharding on all axes.
struct NodeSharding {
  layers::LayerStages stages;
  layers::LayerShapes whole;  // global extents, those of inner tensors included
  std::vector<TensorPlacement> inputs, parameters, state;
  TensorPlacement output, output_gradient;
  std::vector<TensorPlacement> input_gradients, parameter_gradients;
  std::vector<TensorPlacement> inner_made, inner_needed;
};

// Return how the stage that makes a tensor leaves it on the mesh, and how the stages that read it need it.
const TensorPlacement& Made(const NodeSharding& sharding, layers::Slot slot);
const TensorPlacement& Needed(const NodeSharding& sharding, layers::Slot slot);
// Returns the global extents of a slot.
const program::Shape& ShapeOf(const layers::LayerShapes& whole, layers::Slot slot);

// Which stages of a layer run (by stage), and which inner tensors are wanted (by index): those that a running stage reads,
// and those that are always made.
struct WantedStages {
  std::vector<bool> runs, inner;
};
// All stages of forward run. A stage of backward runs if it writes a slot that `is_wanted` wants, or an inner tensor that is
// always made or that a later stage that runs reads. `is_wanted` is not asked about inner tensors.
WantedStages StagesWanted(const layers::LayerStages& stages, absl::FunctionRef<bool(layers::Slot)> is_wanted);

// Returns the ops of one stage, which runs (StagesWanted), at position 0, on operands that have shapes and no buffers; all
// that it writes is there but what `is_made` refuses.
std::vector<layers::EmittedOp> EmitOnOneDevice(
    const Mesh& mesh, const NodeSharding& sharding, int stage,
    absl::FunctionRef<bool(layers::Slot)> is_made = [](layers::Slot) { return true; });

// Returns what the batches that a layer takes are multiples of, where it splits them over `parts` devices.
int64_t BatchStepOf(const layers::LayerNode& node, int64_t parts);
// Returns what the batches that suit two steps are multiples of.
int64_t CommonBatchStep(int64_t a, int64_t b);

// Spreads the layer `id` by one strategy per axis, for a global batch, which may be one of several micro-batches of a step.
// InvalidArgument names layer, axis, expected and found; FailedPrecondition where the batch does not split, or where the
// layer needs all of it at once. Messages name batches that this layer takes, of the multiples of `batch_step`.
absl::StatusOr<NodeSharding> ShardNode(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                                       absl::Span<const layers::Strategy> strategies, int64_t global_batch,
                                       program::Mode mode = program::Mode::kTrain, int64_t micro_batches = 1,
                                       int64_t batch_step = 1);

// Whether activations may move between devices, which they do not where all layers split the batch over every axis.
bool MovesActivations(const Plan& plan);

// What a plan makes of a network.
struct GraphSharding {
  std::vector<NodeSharding> nodes;  // empty entries for inputs
  // In how many parts of the batch activations move: the most, up to the plan's own number, into which the samples of each
  // device divide in every layer.
  int transfer_parts = 1;
};

// Spreads all layers by `plan`. If samples move along an axis, or must be gathered on it before they move along an earlier
// one, layers with `batch` on it hold their share of each of the transfer parts, so that a part can move by itself. Errors
// name the plan, and are those of ShardNode.
absl::StatusOr<GraphSharding> ShardGraph(const layers::LayerGraph& graph, const Plan& plan, int64_t global_batch,
                                         program::Mode mode = program::Mode::kTrain, int64_t micro_batches = 1);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_SHARDINGS_H_
