// The loss: mean of −log softmax(logits)[label] over the samples whose label is not negative, with top-1 and top-5 hits.
//
// Its output is the metrics (program/op.h); the labels are the second input of its shards.
#ifndef COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
#define COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct SoftmaxCrossEntropy {
  bool operator==(const SoftmaxCrossEntropy&) const = default;
};

const char* TypeName(const SoftmaxCrossEntropy&);
absl::StatusOr<program::Shape> OutputSampleShape(const SoftmaxCrossEntropy& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const SoftmaxCrossEntropy& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const SoftmaxCrossEntropy& layer, const LayerShapes& local, Strategy strategy,
                               int64_t axis_size);
LayerStages Stages(const SoftmaxCrossEntropy& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
