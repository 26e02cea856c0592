// A loss: the cross entropy of softmax(logits) and the labels, with top-1 and top-5 hits.
//
//   y = weight · the mean of −Σ_k t_k·log p_k over the samples whose label is not negative,   p = softmax(logits)
//
//   logits [n,K]   labels i32 [n]   y: the metrics (program/op.h)
//
// t is 1 at the label and 0 elsewhere; with label smoothing s, 1 − s + s/K and s/K. Evaluation measures −log p at the label:
// it knows neither weight nor smoothing. Labels and their count stand behind the logits among the inputs.
//
// Backward: dlogits = weight · (p − t) / (samples of the global batch with a label); 0 where there is none.
// Cost       5 flop a logit forward, 2 backward; training keeps p.
// Strategies batch: metrics are added over positions. None that cuts the classes.
// Errors     InvalidArgument where the input is not one of [K], weight is not above 0 and finite, or s is not in [0, 1).
// Numerics   the greatest logit is taken off first; p is f32 also where activations are bf16.
// Source     of the smoothing: Szegedy et al. 2016, arXiv:1512.00567, section 7.
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
