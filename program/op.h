// The operations that one device computes, as plain attribute structs in one variant.
//
// A layer is expressed in these operations and never added as one. What is true of an operation whatever runs it (its name,
// attributes, operands, cost class) is declared once, in op_table.h; what runs it visits the variant without a default
// branch. So a new operation does not compile until it has a row of traits and each backend prepares it. The order of a
// task's uses is the order of the operands given beside each struct; [x] marks an operand that may be absent.
// This file is long because the variant needs every struct.
// Letters: n batch, C K channels in and out, H W image, P Q output image, R S filter, I O of a fully connected layer.
#ifndef COLONNADE_PROGRAM_OP_H_
#define COLONNADE_PROGRAM_OP_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "program/formulas/activation.h"
#include "program/formulas/adamw.h"
#include "program/formulas/sgd.h"
#include "program/types.h"

namespace colonnade::program {

// Copies the box of global host input `input` that Program::inputs gives this buffer, as it is.     → y
struct Load {
  int input = 0;
  bool operator==(const Load&) const = default;
};
// Copies a piece of output `output` to the host.                                          x →
struct Store {
  int output = 0;
  bool operator==(const Store&) const = default;
};
// y = x. Shapes of different rank but equal element count are matched in row-major order (flatten).   x → y
struct Copy {
  bool operator==(const Copy&) const = default;
};
// value = scale·byte + shift, by channel.
struct PixelScaling {
  std::vector<double> scale{}, shift{};
  bool operator==(const PixelScaling&) const = default;
};
// y[n,c,…] = scale[c]·x[n,…,c] + shift[c]: images as files have them, bytes with the channels innermost, become what a
// network reads. It is computed in double, rounded to f32 where y is no double, then to the type of y.
struct Normalise {                       // x u8 [n,…,C] → y [n,C,…]
  std::vector<double> scale{}, shift{};  // by channel
  bool operator==(const Normalise&) const = default;
};
// y = x_0 + x_1 + …, added in that order.                                                 x_0, x_1, … → y
struct Sum {
  bool operator==(const Sum&) const = default;
};

// Geometry of a sliding window; rows (h) and columns (w) apart. The image is padded with zeros on each of its four sides.
struct Window {
  int64_t size_h = 1, size_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  bool operator==(const Window&) const = default;
};

// y[n,k,p,q] = Σ_{c,r,s} x[n, c, p·stride+r−pad_top, q·stride+s−pad_left] · w[k,c,r,s] + b[k], c over the channels of k's
// group.
struct ConvForward {  // x [n,C,H,W], w [K,C/groups,R,S], [b [K]] → y [n,K,P,Q]
  Window window;
  int64_t groups = 1;
  bool bias = false;
  bool relu = false;  // y = max(·, 0), fused
  bool operator==(const ConvForward&) const = default;
};
struct ConvBackwardData {  // dy, w → dx
  Window window;
  int64_t groups = 1;
  bool operator==(const ConvBackwardData&) const = default;
};
struct ConvBackwardWeights {  // x, dy → dw, [db]
  Window window;
  int64_t groups = 1;
  bool bias = false;
  bool operator==(const ConvBackwardWeights&) const = default;
};

// y = x·Wᵀ + b.
struct FullyConnectedForward {  // x [n,I], w [O,I], [b [O]] → y [n,O]
  bool bias = false;
  bool relu = false;
  bool operator==(const FullyConnectedForward&) const = default;
};
struct FullyConnectedBackwardData {  // dy, w → dx
  bool operator==(const FullyConnectedBackwardData&) const = default;
};
struct FullyConnectedBackwardWeights {  // x, dy → dw, [db]
  bool bias = false;
  bool operator==(const FullyConnectedBackwardWeights&) const = default;
};

// y[n,k,…] = x[n,k,…] + b[k]: the bias of a layer whose sum over input channels was split over devices.
struct BiasForward {  // x, b → y
  bool operator==(const BiasForward&) const = default;
};
struct BiasBackward {  // dy → db, db[k] = Σ dy[·,k,…]
  bool operator==(const BiasBackward&) const = default;
};

// y = f(x), element by element; activation.h lists the functions f. In the text their names are those of f: relu_forward.
struct ActivationForward {  // x → y
  Activation activation = Activation::kRelu;
  bool operator==(const ActivationForward&) const = default;
};
struct ActivationBackward {  // y (x of those whose formula keeps it), dy → dx = f'(x)·dy
  Activation activation = Activation::kRelu;
  bool operator==(const ActivationBackward&) const = default;
};

// The maximum over each window; of equal values the first in row-major order counts. argmax is the backend's note of
// where it was (u8, shaped like y), for max poolings of the same window and images alone.
struct MaxPoolForward {  // x → y, [argmax]   (argmax absent in evaluation)
  Window window;
  bool operator==(const MaxPoolForward&) const = default;
};
struct MaxPoolBackward {  // argmax, dy → dx
  Window window;
  bool operator==(const MaxPoolBackward&) const = default;
};
// The mean over each window: its sum over the number of its cells that count. Those are the cells in the image, and with
// count_pad those in the padding that opposite sides share: rows of [−pad_top, H + pad_top), columns of [−pad_left,
// W + pad_left). So what pad_bottom and pad_right have beyond pad_top and pad_left, as after rounding up, never counts.
struct AvgPoolForward {  // x → y
  Window window;
  bool count_pad = true;
  bool operator==(const AvgPoolForward&) const = default;
};
struct AvgPoolBackward {  // dy → dx
  Window window;
  bool count_pad = true;
  bool operator==(const AvgPoolBackward&) const = default;
};

// Local response normalisation across channels, windows confined to each of `groups` equal blocks of channels:
//   y_c = x_c · s_c^(−beta),   s_c = k + alpha/size · Σ_{|j−c| ≤ size/2, j in c's block} x_j².
// Source: Krizhevsky et al. 2012, section 3.3; alpha is divided by size as Caffe and PyTorch do.
struct LrnForward {  // x → y
  int64_t size = 5;
  int64_t groups = 1;
  double alpha = 1e-4, beta = 0.75, k = 2.0;
  bool operator==(const LrnForward&) const = default;
};
struct LrnBackward {  // x, dy → dx   (s is worked out anew)
  int64_t size = 5;
  int64_t groups = 1;
  double alpha = 1e-4, beta = 0.75, k = 2.0;
  bool operator==(const LrnBackward&) const = default;
};

// Batch normalisation over the n·H·W elements of each channel, in the steps between which devices add their sums. The batch
// is cut into G equal groups of consecutive samples, each normalised by itself; G is the first extent of `sums`, f64
// [G,2,C]: Σx, then Σx². With `count` elements in a group of a channel, over all devices,
//   mean = Σx/count,   var = Σx²/count − mean²,   x̂ = (x − mean)/sqrt(var + epsilon),   y = w·x̂ + b.
// Sums are of products and in double (program/formulas/batch_norm.h bounds what cancels). Source: Ioffe & Szegedy 2015.
struct BatchNormSums {  // x [n,C,…] → sums, [totals f64 [1,2,C]]   (totals: over all groups)
  bool operator==(const BatchNormSums&) const = default;
};
// The addend is added to y as it would be stored, before the ReLU, so that the bits are those of a Sum after it.
struct BatchNormForward {  // x, sums, w [C], b [C], [addend, shaped like y] → y
  int64_t count = 1;
  double epsilon = 1e-5;
  bool relu = false;  // y = max(·, 0), fused
  bool operator==(const BatchNormForward&) const = default;
};
// Updates the running statistics that evaluation reads: mean ← (1 − momentum)·mean + momentum·Σx/count, and var likewise,
// with the unbiased variance, var·count/(count − 1).
struct BatchNormTrack {  // sums f64 [1,2,C], mean [C] (accumulated), var [C] (accumulated), [gate f64 [2]]
  int64_t count = 1;
  double momentum = 0.1;
  bool operator==(const BatchNormTrack&) const = default;
};
// Turns mean and variance into the sums that give them with count = 1: Σx = mean, Σx² = var + mean².
struct BatchNormRecall {  // mean [C], var [C] → sums f64 [1,2,C]
  bool operator==(const BatchNormRecall&) const = default;
};
// Folds a normalisation with this mean and variance into the product before it: with f = w/sqrt(var + epsilon) by channel,
//   folded = f·weights,   folded_bias = b + f·(bias − mean),
// whose product with any x is the normalised product of x with `weights` and `bias` (0 where it is absent). It is computed
// in double, or weights in float times f rounded to float, and rounded once more where products are in bf16.
struct BatchNormFold {  // weights [C,…], mean [C], var [C], w [C], b [C], [bias [C]] → folded [C,…], folded_bias [C]
  double epsilon = 1e-5;
  bool operator==(const BatchNormFold&) const = default;
};
// dsums are Σdy, then Σdy·x̂; db and dw are the same over all groups. With w and b, dy counts as 0 where BatchNormForward
// with these, fused with a ReLU, gives 0: its result is computed again, with the same roundings.
struct BatchNormBackwardSums {  // x, dy, sums, [w, b] → dsums f64 [G,2,C], dw, db
  int64_t count = 1;
  double epsilon = 1e-5;
  bool operator==(const BatchNormBackwardSums&) const = default;
};
// The gradient of a ReLU and its sums in one: dz = dy, or dy + more, where y is above zero, else 0; the others are as
// BatchNormBackwardSums makes them of dz.
struct BatchNormMaskedSums {  // x, y, dy, sums, [more, shaped like dy] → dz, dsums f64 [G,2,C], dw, db
  int64_t count = 1;
  double epsilon = 1e-5;
  bool operator==(const BatchNormMaskedSums&) const = default;
};
// dx = w/sqrt(var + epsilon) · (dy − (Σdy + x̂·Σdy·x̂)/count). With b, dy counts as 0 where it does in BatchNormBackwardSums.
struct BatchNormBackward {  // x, dy, sums, dsums, w, [b] → dx
  int64_t count = 1;
  double epsilon = 1e-5;
  bool operator==(const BatchNormBackward&) const = default;
};

// Layer normalisation: over the C channels of each sample and position, whatever the others hold.
//   mean = Σ_c x/C,   rstd = 1/sqrt(Σ_c (x − mean)²/C + epsilon),   x̂ = (x − mean)·rstd,   y = w·x̂ + b.
// moments, [n,3,…], are three numbers of each sample and position: the mean rounded to f32, the rest that rounding left, and
// rstd. So x − mean keeps its digits wherever the mean is. Source: Ba, Kiros & Hinton 2016.
struct LayerNormForward {  // x [n,C,…], w [C], b [C] → y, moments
  double epsilon = 1e-5;
  bool operator==(const LayerNormForward&) const = default;
};
// dx = rstd · (g − (Σ_c g + x̂·Σ_c g·x̂)/C),   g = w·dy.
struct LayerNormBackwardData {  // x, dy, moments, w → dx
  bool operator==(const LayerNormBackwardData&) const = default;
};
// dw = Σ dy·x̂ and db = Σ dy, over samples and positions.
struct LayerNormBackwardWeights {  // x, dy, moments → dw, db
  bool operator==(const LayerNormBackwardWeights&) const = default;
};

// y = x · mask / (1 − rate); the mask is drawn by Philox keyed by (seed, stream, step, global element index), so both
// passes draw the same one and every plan does too. The operand holds the box of the global tensor at `offset`.
struct Dropout {  // scalars, x → y   (backward: scalars, dy → dx)
  double rate = 0.5;
  uint32_t stream = 0;  // which dropout layer
  Shape global_shape;
  Shape offset;
  bool operator==(const Dropout&) const = default;
};

// p = softmax(logits) per sample, and four sums over the samples with label ≥ 0, written as metrics f64 [4]:
//   Σ −weight·Σ_k t_k·log p_k,  count of top-1 hits,  count of top-5 hits,  count of labels ≥ 0,
// where t = (1 − label_smoothing)·onehot(label) + label_smoothing/K. A sample is a top-k hit if fewer than k classes have a
// larger logit, or an equal one and a smaller index. Source of the smoothing: Szegedy et al. 2016, section 7.
struct SoftmaxCrossEntropyForward {  // logits [n,K], labels i32 [n] → p [n,K], metrics f64 [4]
  double weight = 1, label_smoothing = 0;
  bool operator==(const SoftmaxCrossEntropyForward&) const = default;
};
// Counts the labels of all operands that are not negative.
struct CountLabels {  // labels i32 [n], … → count f64 [1]
  bool operator==(const CountLabels&) const = default;
};
// dlogits = weight·(p − t) / max(count, 1), zero for a sample whose label is negative.
struct SoftmaxCrossEntropyBackward {  // count f64 [1], p, labels → dlogits
  double weight = 1, label_smoothing = 0;
  bool operator==(const SoftmaxCrossEntropyBackward&) const = default;
};

// Sets the flag of each of any number of tensors x: 1 if every element of x is finite, else 0.
struct CheckFinite {  // x, → flag i32 [1], x, → flag i32 [1], …
  bool operator==(const CheckFinite&) const = default;
};

// Numbers by member of a bucket; none: 1 for each. A tensor that is no bucket counts as one member.
using Factors = std::vector<double>;
inline double FactorOf(const Factors& factors, size_t member) { return factors.empty() ? 1 : factors[member]; }

// Updates of parameters w by their gradients g; lr comes from the step scalars. The gate, where there is one, holds {1 or 0,
// c}: with 0 nothing is changed, else each gradient counts c times. `rates` and `trust` are factors of the rate, `decays` of
// weight_decay; parts of buckets may hold any part of a member.
//
// Stochastic gradient descent with momentum (sgd.h has the formulas).
struct SgdUpdate {  // scalars, [gate f64 [2], trust f64 [members]], g, v (accumulated), w (accumulated)
  double momentum = 0.9;
  double weight_decay = 0;
  SgdForm form = SgdForm::kKrizhevsky;
  Factors rates{}, decays{};
  bool operator==(const SgdUpdate&) const = default;
};
// adamw.h has the formulas; t is the step of the scalars plus 1.
struct AdamWUpdate {  // scalars, [gate f64 [2], trust f64 [members]], g, m (accumulated), v (accumulated), w (accumulated)
  AdamW adam;
  double weight_decay = 0;
  Factors rates{}, decays{};
  bool operator==(const AdamWUpdate&) const = default;
};
// The exponential moving average e of w: e ← e + (1 − decay)·(w − e). It obeys the same gate.
struct AverageUpdate {  // [gate f64 [2]], w, e (accumulated)
  double decay = 0;
  bool operator==(const AverageUpdate&) const = default;
};

// Computes, in double, the part of each member's Σg² and, with w, Σw² that the operands hold. Both are 0 for members that
// `counted` leaves out; without w the second is 0.
struct SquaredNorms {  // g, [w] → norms f64 [members,2]
  Factors counted{};   // 1 or 0
  bool operator==(const SquaredNorms&) const = default;
};
// Computes what updates obey from the squared norms of all parameters. With |g| and |w| their roots, and |G| that of the sum
// of all g²,
//   gate = {1 if |G| is finite, else 0;  c = min(1, clip_norm/(|G| + 1e-6)), or 1 where clip_norm is 0},
//   trust_i = trust·|w_i| / (c·|g_i| + weight_decay·decays_i·|w_i|), or 1 where trust or that is 0 or not finite.
// Parameters whose factor in `adapted` is 0 have trust_i = 1. Sources: Pascanu et al. 2013, arXiv:1211.5063, algorithm 1,
// with the 1e-6 of torch.nn.utils.clip_grad_norm_; Lars in optimizer.h.
struct UpdateGate {  // norms f64 [P,2] → gate f64 [2], trust f64 [P]
  double clip_norm = 0, trust = 0, weight_decay = 0;
  Factors decays{}, adapted{};
  bool operator==(const UpdateGate&) const = default;
};

using Op =
    std::variant<Load, Store, Copy, Normalise, Sum, ConvForward, ConvBackwardData, ConvBackwardWeights,
                 FullyConnectedForward, FullyConnectedBackwardData, FullyConnectedBackwardWeights, BiasForward, BiasBackward,
                 ActivationForward, ActivationBackward, MaxPoolForward, MaxPoolBackward, AvgPoolForward, AvgPoolBackward,
                 LrnForward, LrnBackward, BatchNormSums, BatchNormForward, BatchNormTrack, BatchNormRecall, BatchNormFold,
                 BatchNormBackwardSums, BatchNormMaskedSums, BatchNormBackward, LayerNormForward, LayerNormBackwardData,
                 LayerNormBackwardWeights, Dropout, SoftmaxCrossEntropyForward, CountLabels, SoftmaxCrossEntropyBackward,
                 CheckFinite, SgdUpdate, AdamWUpdate, AverageUpdate, SquaredNorms, UpdateGate>;

const char* Name(const Op& op);  // "conv_forward": the word in the Program text and in traces

// The layout of the step scalars, an f64 [3] buffer on each device that the host fills before each step.
struct StepScalar {
  enum Index : int { kLearningRate = 0, kStep = 1, kSeed = 2, kCount = 3 };
};
inline constexpr uint64_t kLargestScalar = (uint64_t{1} << 53) - 1;  // of steps and seeds: a double holds it and all below
// The layout of a gate.
struct Gate {
  enum Index : int { kIsOpen = 0, kGradientScale = 1, kCount = 2 };
};
// The layout of the metrics that SoftmaxCrossEntropyForward writes.
struct Metric {
  enum Index : int { kLossSum = 0, kTop1Hits = 1, kTop5Hits = 2, kLabelCount = 3, kCount = 4 };
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_OP_H_
