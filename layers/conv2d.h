// Two-dimensional convolution, dense or grouped.
//
//   y[n,k,p,q] = Σ_{c,r,s} x[n, c, p·stride+r−pad, q·stride+s−pad] · w[k,c,r,s] + b[k]
//
//   x [n,C,H,W]   w [K,C/groups,R,S]   b [K]   y [n,K,P,Q],   P = (H + 2·pad − R)/stride + 1 rounded down, Q likewise
//
// c runs over the channels of k's group.
//
// Backward: dw[k,c,r,s] = Σ_{n,p,q} dy[n,k,p,q] · x[n, c, p·stride+r−pad, q·stride+s−pad], db[k] = Σ_{n,p,q} dy[n,k,p,q],
//           dx[n,c,h,w] = Σ dy[n,k,p,q] · w[k,c,r,s] over those k, r, s, p and q with p·stride+r−pad = h and
//           q·stride+s−pad = w.
// Cost       forward 2·n·K·P·Q·C/groups·R·S flop; backward twice that, and half of it where nobody needs dx.
// Strategies batch: each position holds n/M samples; dw and db are then sums over positions. Of one group, column: K/M
//            filters, all of x, and a partial dx; row: C/M channels of x and of each filter, and a partial y. Of several,
//            group: where M divides the groups, each position holds its own; where M is a multiple of them, the positions
//            of a group share its channels of x.
// Errors     InvalidArgument where the input is not [C,H,W], K is below 1, groups do not divide C and K, the window does not
//            fit into the padded image, R, S, stride or pad is above 2^20, or bias_init is set of a layer without a bias.
// Numerics   products and sums as the backend's kernels make them, in f32 at least; by Winograd's algorithm, where it is
//            asked for, with relative errors of 10⁻⁶ instead of 10⁻⁷.
// Source     Krizhevsky et al. 2012, section 3.5, for two groups; Krizhevsky 2014, arXiv:1404.5997, for batch and column.
#ifndef COLONNADE_LAYERS_CONV2D_H_
#define COLONNADE_LAYERS_CONV2D_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/fields.h"
#include "layers/sharding.h"
#include "layers/stage.h"

namespace colonnade::layers {

struct Conv2d {
  int64_t out_channels = 0;
  int64_t kernel = 1;    // rows R
  int64_t kernel_w = 0;  // columns S; 0: as R
  int64_t stride = 1;
  int64_t pad = 0;  // zeros on each side
  int64_t groups = 1;
  bool bias = true;
  std::optional<program::Initializer> weight_init{};  // default: Gaussian of deviation sqrt(2 / fan-in), He et al. 2015
  program::Initializer bias_init{};                   // default: 0
  bool operator==(const Conv2d&) const = default;
};

const char* TypeName(const Conv2d&);
std::vector<Field> Fields(Conv2d& conv);
absl::StatusOr<program::Shape> OutputSampleShape(const Conv2d& layer, absl::Span<const program::Shape> inputs);
std::vector<ParameterSpec> Parameters(const Conv2d& layer, absl::Span<const program::Shape> inputs);
absl::StatusOr<Sharding> Shard(const Conv2d& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size);
LayerStages Stages(const Conv2d& layer, const LayerShapes& whole, const StageOptions& options);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_CONV2D_H_
