// In training each element is zero with probability `rate`, else x / (1 − rate); in evaluation y = x.
//
//   x, y [n,…], of any rank
//
// Backward: dx = dy / (1 − rate) where y was not made zero, else 0; what was drawn is drawn again.
// Cost       no flop is counted; nothing is kept. Evaluation has no op: y is x.
// Strategies batch, and group over the channels: without communication. An element's draw is a function of (seed, step,
//            layer, its place in the global tensor) alone, so that every plan draws alike.
// Errors     InvalidArgument where there is not one input, or rate is not in [0, 1).
// Numerics   one rounding; draws by Philox 4x32 (program/formulas/philox.h).
// Source     Srivastava et al. 2014, in the form that scales in training.
#ifndef COLONNADE_LAYERS_DROPOUT_H_
#define COLONNADE_LAYERS_DROPOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Dropout {
  double rate = 0.5;    // 0 ≤ rate < 1
  uint32_t stream = 0;  // which random numbers; GraphBuilder derives it from the layer's name
  bool operator==(const Dropout&) const = default;
};

const char* TypeName(const Dropout&);
std::vector<Field> Fields(Dropout& dropout);
absl::StatusOr<program::Shape> OutputSampleShape(const Dropout& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Dropout& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Dropout& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Dropout& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_DROPOUT_H_
