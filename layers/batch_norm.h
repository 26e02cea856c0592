// Batch normalisation: each channel has, over a batch, mean b and standard deviation w.
//
//   y = w·x̂ + b,   x̂ = (x − mean)/sqrt(var + epsilon)      x, y [n,F] or [n,C,H,W]   w, b [F] or [C]
//
// with mean and var over all dimensions but the channels.
//
// In training, mean and var are those of the batch at hand: of the whole global batch, whatever devices hold of it
// (synchronous; the sums, f64 [1,2,C], are added over devices), or, with samples_per_group = g > 0, of each group of g
// consecutive samples (Hoffer et al. 2017, "ghost"), which needs no communication where a device holds whole groups. In
// evaluation they are the running ones: r ← (1 − momentum)·r + momentum·(of the whole batch; var unbiased) after each step;
// lowering may fold w, b and these into the weight and bias of the product that makes x, which then makes y.
//
// Backward, with N the elements that a mean is of: dw = Σ dy·x̂ and db = Σ dy over all samples and positions, and
//           dx = w/sqrt(var + epsilon) · (dy − Σ dy/N − x̂·Σ dy·x̂/N), where the sums are those of the group.
// Cost       6 flop an element forward, 7 with an addend; 11 backward, 17 where the ReLU's input is made again, 12 where its
//            mask is kept (13 with an addend); of evaluation 3, or the folding of one weight each. Training keeps x and the
//            sums.
// Strategies batch: sums of a synchronous layer, and dw and db, are added over positions; ghosts want whole groups on each.
//            group: each position has C/M channels, without communication.
// Errors     InvalidArgument unless the input is [F] or [C,H,W], epsilon in [program::kLeastEpsilon, 1], momentum in [0, 1]
//            and samples_per_group at least 0. FailedPrecondition of lowering where groups do not divide the batch.
// Numerics   sums are in double; program/formulas/batch_norm.h bounds their error. Running statistics are f32.
// Source     Ioffe & Szegedy 2015, algorithms 1 and 2; names and defaults are PyTorch's.
#ifndef COLONNADE_LAYERS_BATCH_NORM_H_
#define COLONNADE_LAYERS_BATCH_NORM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;
  int64_t samples_per_group = 0;  // 0: the whole global batch
  double initial_weight = 1;      // of every w; 0 lets a residual block begin as the identity
  bool operator==(const BatchNorm&) const = default;
};

const char* TypeName(const BatchNorm&);
std::vector<Field> Fields(BatchNorm& norm);
absl::StatusOr<program::Shape> OutputSampleShape(const BatchNorm& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const BatchNorm& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const BatchNorm& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const BatchNorm& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_BATCH_NORM_H_
