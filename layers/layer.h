// The functions that each layer provides, and the variant of all layers.
//
// A layer type is an attribute struct with, in a file pair of its own (conv2d.h, conv2d.cc …), overloads of the functions
// below. They describe ONE device: no layer knows a device, rank, group or plan.
//
// Shapes: sample shapes leave the batch dimension out ({C, H, W}, {F}); all other shapes hold it as dimension 0.
#ifndef COLONNADE_LAYERS_LAYER_H_
#define COLONNADE_LAYERS_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/add.h"
#include "layers/avg_pool.h"
#include "layers/concat.h"
#include "layers/conv2d.h"
#include "layers/dropout.h"
#include "layers/emit.h"
#include "layers/flatten.h"
#include "layers/fully_connected.h"
#include "layers/input.h"
#include "layers/lrn.h"
#include "layers/max_pool.h"
#include "layers/relu.h"
#include "layers/sharding.h"
#include "layers/softmax_cross_entropy.h"

namespace colonnade::layers {

using Layer = std::variant<Input, Conv2d, FullyConnected, Concat, Relu, MaxPool, AvgPool, Lrn, Dropout, Flatten, Add,
                           SoftmaxCrossEntropy>;

// Each layer type L has these overloads; the functions on Layer visit the variant.
//
//   const char* TypeName(const L&);                                          "Conv2d"
//   StatusOr<Shape> OutputSampleShape(const L&, Span<const Shape> inputs);   the shape rule; the message says what was
//                                                                            expected and what was found
//   vector<ParameterSpec> Parameters(const L&, Span<const Shape> inputs);    global shapes and initialisers
//   StatusOr<Sharding> Shard(const L&, const LayerShapes& local, Strategy, int64_t axis_size);
//       the layer spread over one more axis of axis_size > 1 positions; local: extents left by the axes before.
//       InvalidArgument with expected, found and the nearest sizes that work, where this is not legal.
//   vector<SavedSpec> Saved(const L&, const LayerShapes& local);             what forward leaves for backward, beside inputs
//                                                                            and output
//   vector<EmittedOp> EmitForward(const L&, const ForwardShard&);            the ops of one shard
//   vector<EmittedOp> EmitBackward(const L&, const BackwardShard&);
const char* TypeName(const Layer& layer);
absl::StatusOr<program::Shape> OutputSampleShape(const Layer& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Layer& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Layer& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
std::vector<SavedSpec> Saved(const Layer& layer, const LayerShapes& local);
std::vector<EmittedOp> EmitForward(const Layer& layer, const ForwardShard& shard);
std::vector<EmittedOp> EmitBackward(const Layer& layer, const BackwardShard& shard);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_LAYER_H_
