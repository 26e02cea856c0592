// Layer normalisation: over dimension 1, the channels or features, of each sample and position by itself.
//
//   y_c = w_c·(x_c − mean)/sqrt(var + epsilon) + b_c      x, y [n,C,H,W] or [n,F]   w, b [C] or [F]
//
// mean and var are those of the C values at one sample and position (var biased, Σ(x − mean)²/C): no sample, position or
// device has part in another's, so training and evaluation are the same and there is no state. Of a flat input this is
// PyTorch's nn.LayerNorm(F), of images that of channels-last tensors, as in vision transformers and ConvNeXt.
//
// Backward, with g = w·dy: dx_c = (g_c − (Σ_j g_j + x̂_c·Σ_j g_j·x̂_j)/C)/sqrt(var + epsilon); dw_c = Σ dy_c·x̂_c and
// db_c = Σ dy_c over samples and positions.
// Cost       8 flop an element forward, 16 backward; training keeps three numbers of each sample and position.
// Strategies replicate, batch: gradients of w and b are then sums over devices. None that cuts the channels.
// Errors     InvalidArgument where the input is neither [F] nor [C,H,W], or epsilon is not in [program::kLeastEpsilon, 1].
// Numerics   two passes: mean is a sum in double, var one of the squares of x − mean, which is rounded to f32. So in f32,
//            wherever the mean is, var is off by at most (2⁻²³ + C·2⁻⁵³)·var, and y by 8·2⁻²⁴·(|w·x̂| + |b|).
//            Of one channel, y is b.
// Source     Ba, Kiros & Hinton 2016, section 3; names and defaults are PyTorch's.
#ifndef COLONNADE_LAYERS_LAYER_NORM_H_
#define COLONNADE_LAYERS_LAYER_NORM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct LayerNorm {
  double epsilon = 1e-5;
  bool operator==(const LayerNorm&) const = default;
};

const char* TypeName(const LayerNorm&);
std::vector<Field> Fields(LayerNorm& norm);
absl::StatusOr<program::Shape> OutputSampleShape(const LayerNorm& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const LayerNorm& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const LayerNorm& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const LayerNorm& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_LAYER_NORM_H_
