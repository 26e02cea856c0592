// A loss: weight · the mean of −Σ_k t_k·log softmax(logits)_k over the samples whose label is not negative, with top-1 and
// top-5 hits; t is 1 at the label, or with label smoothing s, 1 − s + s/K there and s/K at the other of K classes.
// Evaluation measures −log softmax(logits)[label]: it knows neither weight nor smoothing.
//
// Its output is the metrics (program/op.h); labels and their count stand behind the logits. Source of the smoothing:
// Szegedy et al. 2016, arXiv:1512.00567, section 7.
#ifndef COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
#define COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct SoftmaxCrossEntropy {
  double weight = 1;           // above 0
  double label_smoothing = 0;  // in [0, 1)
  bool operator==(const SoftmaxCrossEntropy&) const = default;
};

const char* TypeName(const SoftmaxCrossEntropy&);
std::vector<Field> Fields(SoftmaxCrossEntropy& loss);
absl::StatusOr<program::Shape> OutputSampleShape(const SoftmaxCrossEntropy& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const SoftmaxCrossEntropy& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const SoftmaxCrossEntropy& layer, const LayerShapes& local, Strategy strategy,
                               int64_t axis_size);
LayerStages Stages(const SoftmaxCrossEntropy& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_SOFTMAX_CROSS_ENTROPY_H_
