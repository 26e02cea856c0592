// What a plan makes of each layer of a network: the placements of its tensors on every axis of the mesh.
//
// Axes compose: a layer is spread over the first axis, and what is left of it on one device over the next.
#ifndef COLONNADE_PARTITION_SHARDINGS_H_
#define COLONNADE_PARTITION_SHARDINGS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/graph.h"
#include "partition/mesh.h"
#include "partition/plan.h"

namespace colonnade::partition {

// layers::Sharding, on all axes.
struct NodeSharding {
  std::vector<TensorPlacement> inputs;
  std::vector<TensorPlacement> parameters;  // for a row layer without its bias, which lies as `output_gradient` says
  TensorPlacement output;
  TensorPlacement output_gradient;
  std::vector<TensorPlacement> input_gradients;
  std::vector<TensorPlacement> parameter_gradients;
};

// True if the layer's bias must be added after a sum over devices: it has a bias and some axis has strategy row.
bool HasSeparateBias(const layers::LayerNode& node, absl::Span<const layers::Strategy> strategies);

// The layer `id` under one strategy per axis, for a global batch. InvalidArgument naming layer, axis, expected and found;
// FailedPrecondition where the batch does not split.
absl::StatusOr<NodeSharding> ShardNode(const layers::LayerGraph& graph, layers::LayerId id, const Mesh& mesh,
                                       absl::Span<const layers::Strategy> strategies, int64_t global_batch);

// The extents of a layer's tensors on every device, from `whole` ones (LayerGraph::Shapes). Of a row layer, whose bias is
// added apart, without its bias.
layers::LayerShapes LocalShapes(const Mesh& mesh, const NodeSharding& sharding, layers::LayerShapes whole);

// All layers under `plan`, by node; entries of inputs are empty.
absl::StatusOr<std::vector<NodeSharding>> ShardGraph(const layers::LayerGraph& graph, const Plan& plan,
                                                     int64_t global_batch);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_SHARDINGS_H_
