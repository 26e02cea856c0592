// A fully connected layer.
//
//   y = x·Wᵀ + b      x [n,I]   W [O,I]   b [O]   y [n,O]
//
// Backward: dW = dyᵀ·x, db = Σ_n dy, dx = dy·W.
// Shapes     one input of one dimension ([I] a sample): put a Flatten before it.
// Cost       forward 2·n·I·O flop; backward twice that, and half of it where nobody needs dx.
// Strategies replicate, batch: gradients are then sums over positions. column: each position holds O/M rows of W and of b,
//            reads all of x and makes a partial dx. row: it holds I/M columns of W, reads its part of x and makes a
//            partial y; b is added by an action of its own, after the sum.
// Errors     InvalidArgument where the input has not one dimension, O is below 1, bias_init is set of a layer without a
//            bias, or M does not divide O (column) or I (row), with the nearest sizes that work.
// Numerics   products and sums as the backend's kernels make them, in f32 at least; sums over positions in the order of
//            positions.
// Source     Krizhevsky 2014, arXiv:1404.5997, section 4, for column.
#ifndef COLONNADE_LAYERS_FULLY_CONNECTED_H_
#define COLONNADE_LAYERS_FULLY_CONNECTED_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct FullyConnected {
  int64_t out_features = 0;
  bool bias = true;
  std::optional<program::Initializer> weight_init{};  // default: Gaussian of deviation sqrt(2 / I), He et al. 2015
  program::Initializer bias_init{};                   // default: 0
  bool operator==(const FullyConnected&) const = default;
};

const char* TypeName(const FullyConnected&);
std::vector<Field> Fields(FullyConnected& layer);
absl::StatusOr<program::Shape> OutputSampleShape(const FullyConnected& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const FullyConnected& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const FullyConnected& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const FullyConnected& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_FULLY_CONNECTED_H_
