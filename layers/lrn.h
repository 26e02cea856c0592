// Local response normalisation across channels, within each of `groups` equal blocks of channels.
//
//   y_c = x_c · s_c^(−beta),   s_c = k + alpha/size · Σ x_j²   over the channels j of c's block with |j − c| ≤ size/2
//
//   x [n,C,H,W]   y likewise
//
// Backward: dx_c = dy_c · s_c^(−beta) − 2·alpha·beta/size · x_c · Σ_j dy_j · x_j · s_j^(−beta−1), j over the same window.
// Cost       2·min(size, 2·channels of a block) + 10 flop an element forward, three times that backward, which works s out
//            anew: to keep it would cost more time on CPUs, and as much memory as x in f32.
// Strategies replicate, batch: without communication. group: where M divides the blocks, each position holds its own; where
//            M is a multiple of them, the positions of a block gather it and compute it alike. A layer of one block is not
//            split by channels.
// Errors     InvalidArgument where groups do not divide C, size is even, alpha or beta is below 0, k is not above 0, one of
//            them is not finite, or neither of M and groups divides the other.
// Numerics   s is summed in f32, or in f64 with the reference kernels.
// Source     Krizhevsky et al. 2012, section 3.3; alpha is divided by size as Caffe and PyTorch do. In a network of two
//            columns each column normalises over its own channels: groups = 2.
#ifndef COLONNADE_LAYERS_LRN_H_
#define COLONNADE_LAYERS_LRN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Lrn {
  int64_t size = 5;  // channels in a window; odd
  int64_t groups = 1;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 2.0;
  bool operator==(const Lrn&) const = default;
};

const char* TypeName(const Lrn&);
std::vector<Field> Fields(Lrn& lrn);
absl::StatusOr<program::Shape> OutputSampleShape(const Lrn& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Lrn& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Lrn& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Lrn& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_LRN_H_
