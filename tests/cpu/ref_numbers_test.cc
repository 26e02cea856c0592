// The oracle against numbers computed by hand. Its gradients are compared with finite differences in ref_test.cc, and for
// all OpCases in conformance_test.cc.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "cpu/ref/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/formulas/math.h"

namespace colonnade::cpu::ref {
namespace {

using program::DType;
using program::Shape;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Pointwise;
using Vector = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

template <class T>
constexpr DType kTypeOf = DType::kF64;
template <>
constexpr DType kTypeOf<float> = DType::kF32;
template <>
constexpr DType kTypeOf<int32_t> = DType::kI32;
template <>
constexpr DType kTypeOf<uint8_t> = DType::kU8;

template <class T>
Tensor Of(std::vector<T>& values, const Shape& shape) {
  EXPECT_EQ(static_cast<int64_t>(values.size()), program::ElementCount(shape));
  return {values.data(), kTypeOf<T>, shape, RowMajorStrides(shape)};
}

void RunOk(const program::Op& op, const std::vector<Tensor>& operands) {
  const absl::Status status = Run(op, operands);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Ref, LoadAndStoreAreNoKernels) {
  EXPECT_EQ(ref::Run(program::Op(program::Load{}), {}).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ref::Run(program::Op(program::Store{}), {}).code(), absl::StatusCode::kInternal);
}

TEST(Ref, OperandsMayBeBoxesOfLargerTensors) {
  Vector x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, y(12, -1);  // [3,4]
  const Tensor from{x.data() + 5, DType::kF64, {2, 2}, {4, 1}}, to{y.data() + 2, DType::kF64, {2, 2}, {4, 1}};
  RunOk(program::Copy{}, {from, to});
  EXPECT_THAT(y, ElementsAre(-1, -1, 5, 6, -1, -1, 9, 10, -1, -1, -1, -1));
  const Tensor columns{x.data(), DType::kF64, {4, 3}, {1, 4}};  // transposed
  RunOk(program::Copy{}, {columns, Of(y, {12})});
  EXPECT_THAT(y, ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
}

TEST(Ref, FloatsAreRoundedOnceAtTheEnd) {
  // In f32 alone 2^24 + 1 + 1 is 2^24.
  std::vector<float> a = {0x1p24f}, b = {1}, c = {1}, y = {0};
  RunOk(program::Sum{}, {Of(a, {1}), Of(b, {1}), Of(c, {1}), Of(y, {1})});
  EXPECT_EQ(y[0], 0x1p24f + 2);
}

TEST(Ref, CopyFlattensInRowMajorOrder) {
  Vector x = {1, 2, 3, 4, 5, 6}, y(6);
  RunOk(program::Copy{}, {Of(x, {1, 3, 2, 1}), Of(y, {2, 3})});
  EXPECT_EQ(y, x);
}

// x 3 x 3, w 2 x 2, pad 0: y[p,q] = x·w over the window that begins at (p,q).
TEST(Ref, ConvolutionWithBiasAndRelu) {
  Vector x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w = {1, 0, 0, -1, 2, 1, 0, 0}, b = {10, -20}, y(8);
  const program::Window window{2, 2, 1, 1};
  const std::vector<Tensor> operands = {Of(x, {1, 1, 3, 3}), Of(w, {2, 1, 2, 2}), Of(b, {2}), Of(y, {1, 2, 2, 2})};
  RunOk(program::ConvForward{.window = window, .bias = true}, operands);
  EXPECT_THAT(y, ElementsAre(6, 6, 6, 6, -16, -13, -7, -4));
  RunOk(program::ConvForward{.window = window, .bias = true, .relu = true}, operands);
  EXPECT_THAT(y, ElementsAre(6, 6, 6, 6, 0, 0, 0, 0));
}

TEST(Ref, ConvolutionWithStrideAndPad) {
  Vector x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w(9, 1), y(4);
  const program::Window window{3, 3, 2, 2, 1, 1, 1, 1};
  RunOk(program::ConvForward{.window = window}, {Of(x, {1, 1, 3, 3}), Of(w, {1, 1, 3, 3}), Of(y, {1, 1, 2, 2})});
  EXPECT_THAT(y, ElementsAre(1 + 2 + 4 + 5, 2 + 3 + 5 + 6, 4 + 5 + 7 + 8, 5 + 6 + 8 + 9));
}

TEST(Ref, AGroupSeesItsOwnChannelsOnly) {
  Vector x = {1, 10, 100, 1000}, w = {1, 2, 3, 4}, y(2), dy = {1, 1}, dx(4), dw(4), db(2);
  const Tensor image = Of(x, {1, 4, 1, 1}), weights = Of(w, {2, 2, 1, 1}), gradient = Of(dy, {1, 2, 1, 1});
  RunOk(program::ConvForward{.groups = 2}, {image, weights, Of(y, {1, 2, 1, 1})});
  EXPECT_THAT(y, ElementsAre(21, 4300));
  RunOk(program::ConvBackwardData{.groups = 2}, {gradient, weights, Of(dx, {1, 4, 1, 1})});
  EXPECT_EQ(dx, w);
  RunOk(program::ConvBackwardWeights{.groups = 2, .bias = true}, {image, gradient, Of(dw, {2, 2, 1, 1}), Of(db, {2})});
  EXPECT_EQ(dw, x);
  EXPECT_THAT(db, ElementsAre(1, 1));
}

TEST(Ref, ConvolutionGradientsOverwriteWhatWasThere) {
  Vector x = {1, 2, 3}, w = {5, 7}, dy = {1, -1}, dx(3, 99), dw(2, 99);
  const program::Window window{1, 2, 1, 1};
  RunOk(program::ConvBackwardData{.window = window}, {Of(dy, {1, 1, 1, 2}), Of(w, {1, 1, 1, 2}), Of(dx, {1, 1, 1, 3})});
  EXPECT_THAT(dx, ElementsAre(5, 7 - 5, -7));
  RunOk(program::ConvBackwardWeights{.window = window}, {Of(x, {1, 1, 1, 3}), Of(dy, {1, 1, 1, 2}), Of(dw, {1, 1, 1, 2})});
  EXPECT_THAT(dw, ElementsAre(1 - 2, 2 - 3));
}

TEST(Ref, FullyConnected) {
  Vector x = {1, 2, 3, 4}, w = {1, 0, 0, 1, 1, -1}, b = {0, 0, -10}, y(6), dy = {1, 2, 3, 4, 5, 6}, dx(4), dw(6), db(3);
  const std::vector<Tensor> forward = {Of(x, {2, 2}), Of(w, {3, 2}), Of(b, {3}), Of(y, {2, 3})};
  RunOk(program::FullyConnectedForward{.bias = true}, forward);
  EXPECT_THAT(y, ElementsAre(1, 2, -11, 3, 4, -11));
  RunOk(program::FullyConnectedForward{.bias = true, .relu = true}, forward);
  EXPECT_THAT(y, ElementsAre(1, 2, 0, 3, 4, 0));
  RunOk(program::FullyConnectedBackwardData{}, {Of(dy, {2, 3}), Of(w, {3, 2}), Of(dx, {2, 2})});
  EXPECT_THAT(dx, ElementsAre(4, -1, 10, -1));
  RunOk(program::FullyConnectedBackwardWeights{.bias = true}, {Of(x, {2, 2}), Of(dy, {2, 3}), Of(dw, {3, 2}), Of(db, {3})});
  EXPECT_THAT(dw, ElementsAre(1 + 12, 2 + 16, 2 + 15, 4 + 20, 3 + 18, 6 + 24));
  EXPECT_THAT(db, ElementsAre(5, 7, 9));
}

TEST(Ref, BiasAndRelu) {
  Vector x = {-1, 2, 3, -4}, b = {10, 20}, y(4), db(2), dy = {5, 6, 7, 8}, dx(4);
  RunOk(program::BiasForward{}, {Of(x, {1, 2, 1, 2}), Of(b, {2}), Of(y, {1, 2, 1, 2})});
  EXPECT_THAT(y, ElementsAre(9, 12, 23, 16));
  RunOk(program::BiasBackward{}, {Of(dy, {2, 2}), Of(db, {2})});
  EXPECT_THAT(db, ElementsAre(12, 14));
  RunOk(program::ActivationForward{program::Activation::kRelu}, {Of(x, {4}), Of(y, {4})});
  EXPECT_THAT(y, ElementsAre(0, 2, 3, 0));
  RunOk(program::ActivationBackward{program::Activation::kRelu}, {Of(y, {4}), Of(dy, {4}), Of(dx, {4})});
  EXPECT_THAT(dx, ElementsAre(0, 6, 7, 0));
}

TEST(Ref, TheFirstOfEqualMaximaIsNotedByItsPlaceInTheWindow) {
  Vector x = {1, 5, 5, 2, 5, 5}, y(2), dy = {10, 20}, dx(6, 99);  // 2 x 3
  std::vector<uint8_t> argmax(2);
  const program::Window window{2, 2, 1, 1};
  RunOk(program::MaxPoolForward{window}, {Of(x, {1, 1, 2, 3}), Of(y, {1, 1, 1, 2}), Of(argmax, {1, 1, 1, 2})});
  EXPECT_THAT(y, ElementsAre(5, 5));
  EXPECT_THAT(argmax, ElementsAre(1, 0));
  RunOk(program::MaxPoolBackward{window}, {Of(argmax, {1, 1, 1, 2}), Of(dy, {1, 1, 1, 2}), Of(dx, {1, 1, 2, 3})});
  EXPECT_THAT(dx, ElementsAre(0, 30, 0, 0, 0, 0));
}

TEST(Ref, PaddingIsNeverTheMaximum) {
  Vector x = {-3, -1, -2, -4}, y(4);
  std::vector<uint8_t> argmax(4);
  const program::Window window{3, 3, 2, 2, 2, 2, 2, 2};  // the first window holds the first cell alone
  RunOk(program::MaxPoolForward{window}, {Of(x, {1, 1, 2, 2}), Of(y, {1, 1, 2, 2}), Of(argmax, {1, 1, 2, 2})});
  EXPECT_THAT(y, ElementsAre(-3, -1, -2, -1));
  EXPECT_THAT(argmax, ElementsAre(8, 7, 5, 1));
}

TEST(Ref, PaddingCountsInAMeanIfAsked) {
  Vector x = {12, 24, 36, 48}, y(1), dy = {36}, dx(4);
  const program::Window window{3, 3, 2, 2, 1, 1, 1, 1};
  const Tensor image = Of(x, {1, 1, 2, 2}), mean = Of(y, {1, 1, 1, 1});
  RunOk(program::AvgPoolForward{window, true}, {image, mean});
  EXPECT_THAT(y, ElementsAre(120.0 / 9));
  RunOk(program::AvgPoolForward{window, false}, {image, mean});
  EXPECT_THAT(y, ElementsAre(30));
  RunOk(program::AvgPoolBackward{window, true}, {Of(dy, {1, 1, 1, 1}), Of(dx, {1, 1, 2, 2})});
  EXPECT_THAT(dx, ElementsAre(4, 4, 4, 4));
  RunOk(program::AvgPoolBackward{window, false}, {Of(dy, {1, 1, 1, 1}), Of(dx, {1, 1, 2, 2})});
  EXPECT_THAT(dx, ElementsAre(9, 9, 9, 9));
}

// Three windows of 3 at stride 2 over four cells and one of padding before them: the last one has the last cell and two that
// lie behind it, of which the nearer is padding that counts.
TEST(Ref, AMeanDoesNotCountPaddingThatOnlyOneSideHas) {
  Vector x = {12, 24, 36, 48}, y(3), dy = {6, 6, 6}, dx(4);
  const program::Window window{1, 3, 1, 2, 0, 1, 0, 2};
  const Tensor image = Of(x, {1, 1, 1, 4}), mean = Of(y, {1, 1, 1, 3});
  RunOk(program::AvgPoolForward{window, true}, {image, mean});
  EXPECT_THAT(y, ElementsAre(36.0 / 3, 108.0 / 3, 48.0 / 2));
  RunOk(program::AvgPoolForward{window, false}, {image, mean});
  EXPECT_THAT(y, ElementsAre(36.0 / 2, 108.0 / 3, 48.0 / 1));
  RunOk(program::AvgPoolBackward{window, true}, {Of(dy, {1, 1, 1, 3}), Of(dx, {1, 1, 1, 4})});
  EXPECT_THAT(dx, ElementsAre(2, 2 + 2, 2, 2 + 3));
  RunOk(program::AvgPoolBackward{window, false}, {Of(dy, {1, 1, 1, 3}), Of(dx, {1, 1, 1, 4})});
  EXPECT_THAT(dx, ElementsAre(3, 3 + 2, 2, 2 + 6));
}

TEST(Ref, AConvolutionsPaddingBeforeAndBehindAreApart) {
  Vector x = {1, 10, 100}, w = {2, 3, 5}, y(3), dy = {1, 1, 1}, dx(3), dw(3);
  const program::Window window{1, 3, 1, 1, 0, 1, 0, 1}, more{1, 3, 1, 1, 0, 0, 0, 2};
  RunOk(program::ConvForward{.window = window}, {Of(x, {1, 1, 1, 3}), Of(w, {1, 1, 1, 3}), Of(y, {1, 1, 1, 3})});
  EXPECT_THAT(y, ElementsAre(53, 532, 320));
  RunOk(program::ConvForward{.window = more}, {Of(x, {1, 1, 1, 3}), Of(w, {1, 1, 1, 3}), Of(y, {1, 1, 1, 3})});
  EXPECT_THAT(y, ElementsAre(532, 320, 200));
  RunOk(program::ConvBackwardData{.window = more}, {Of(dy, {1, 1, 1, 3}), Of(w, {1, 1, 1, 3}), Of(dx, {1, 1, 1, 3})});
  EXPECT_THAT(dx, ElementsAre(2, 5, 10));
  RunOk(program::ConvBackwardWeights{.window = more}, {Of(x, {1, 1, 1, 3}), Of(dy, {1, 1, 1, 3}), Of(dw, {1, 1, 1, 3})});
  EXPECT_THAT(dw, ElementsAre(111, 110, 100));
}

// s = 1 + 3/3·Σx² with x = 1, 2, 3, 4; y = x/s for beta = 1.
TEST(Ref, NormalisationDividesByItsSums) {
  Vector x = {1, 2, 3, 4}, y(4);
  const std::vector<Tensor> operands = {Of(x, {1, 4, 1, 1}), Of(y, {1, 4, 1, 1})};
  RunOk(program::LrnForward{.size = 3, .alpha = 3, .beta = 1, .k = 1}, operands);
  EXPECT_THAT(y, Pointwise(testing::DoubleEq(), Vector{1 / 6.0, 2 / 15.0, 3 / 30.0, 4 / 26.0}));
  RunOk(program::LrnForward{.size = 3, .groups = 2, .alpha = 3, .beta = 1, .k = 1}, operands);
  EXPECT_THAT(y, Pointwise(testing::DoubleEq(), Vector{1 / 6.0, 2 / 6.0, 3 / 26.0, 4 / 26.0}));
}

// Channel 0 has 1, 3 in sample 0 and 5, 7 in sample 1; channel 1 ten times that. Two groups of one sample: means 2 and 6,
// variances 1; with epsilon 3 the scale is 1/2, in channel 1 1/sqrt(103).
TEST(Ref, BatchNormalisationIsOfEachGroupOfSamples) {
  Vector x = {1, 3, 10, 30, 5, 7, 50, 70}, sums(8), totals(4), w = {2, 1}, b = {10, -1}, y(8);
  const Tensor image = Of(x, {2, 2, 1, 2});
  RunOk(program::BatchNormSums{}, {image, Of(sums, {2, 2, 2}), Of(totals, {1, 2, 2})});
  EXPECT_THAT(sums, ElementsAre(4, 40, 10, 1000, 12, 120, 74, 7400));
  EXPECT_THAT(totals, ElementsAre(16, 160, 84, 8400));
  program::BatchNormForward forward{.count = 2, .epsilon = 3};
  const double s = 10 / std::sqrt(103.0);
  RunOk(forward, {image, Of(sums, {2, 2, 2}), Of(w, {2}), Of(b, {2}), Of(y, {2, 2, 1, 2})});
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-15), Vector{9, 11, -1 - s, -1 + s, 9, 11, -1 - s, -1 + s}));
  forward.relu = true;
  RunOk(forward, {image, Of(sums, {2, 2, 2}), Of(w, {2}), Of(b, {2}), Of(y, {2, 2, 1, 2})});
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-15), Vector{9, 11, 0, 0, 9, 11, 0, 0}));
}

// Of the same x with one group: mean 4, variance 5; epsilon 4, so that scale = 1/3 and x̂ = −1, −1/3, 1/3, 1.
TEST(Ref, BatchNormalisationsGradients) {
  Vector x = {1, 3, 5, 7}, dy = {3, 0, 0, 6}, sums(2), dsums(2), dw(1, 99), db(1, 99), w = {2}, dx(4, 99);
  const Shape image = {2, 1, 1, 2}, of_sums = {1, 2, 1};
  RunOk(program::BatchNormSums{}, {Of(x, image), Of(sums, of_sums)});
  EXPECT_THAT(sums, ElementsAre(16, 84));
  RunOk(program::BatchNormBackwardSums{.count = 4, .epsilon = 4},
        {Of(x, image), Of(dy, image), Of(sums, of_sums), Of(dsums, of_sums), Of(dw, {1}), Of(db, {1})});
  EXPECT_THAT(dsums, Pointwise(DoubleNear(1e-15), Vector{9, 3}));
  EXPECT_THAT(dw, Pointwise(DoubleNear(1e-15), Vector{3}));
  EXPECT_THAT(db, ElementsAre(9));
  RunOk(program::BatchNormBackward{.count = 4, .epsilon = 4},
        {Of(x, image), Of(dy, image), Of(sums, of_sums), Of(dsums, of_sums), Of(w, {1}), Of(dx, image)});
  // 2/3·(dy − 9/4 − x̂·3/4)
  EXPECT_THAT(dx, Pointwise(DoubleNear(1e-15), Vector{1, -4.0 / 3, -5.0 / 3, 2}));
}

// Two samples of two channels at two positions: means 2, 20, 4, 40 and variances 1, 100, 1, 400 (biased), over the channels
// of each; epsilon 3, so that rstd is 1/2, 1/sqrt(103), 1/2, 1/sqrt(403).
TEST(Ref, LayerNormalisationIsOverTheChannelsOfEachPosition) {
  Vector x = {1, 10, 3, 30, 5, 60, 3, 20}, w = {2, 1}, b = {10, -1}, y(8), moments(12);
  const Shape image = {2, 2, 1, 2};
  RunOk(program::LayerNormForward{.epsilon = 3},
        {Of(x, image), Of(w, {2}), Of(b, {2}), Of(y, image), Of(moments, {2, 3, 1, 2})});
  const double s = 1 / std::sqrt(103.0), t = 1 / std::sqrt(403.0);
  EXPECT_THAT(y,
              Pointwise(DoubleNear(1e-14), Vector{9, 10 - 20 * s, -0.5, -1 + 10 * s, 11, 10 + 40 * t, -1.5, -1 - 20 * t}));
  EXPECT_THAT(moments, Pointwise(DoubleNear(1e-16), Vector{2, 20, 0, 0, 0.5, s, 4, 40, 0, 0, 0.5, t}));
}

// The mean 1 + 2⁻²⁵ is 1 in f32, from which the differences would be 0 and 2⁻²⁴.
TEST(Ref, LayerNormalisationKeepsWhatRoundingItsMeanLeaves) {
  Vector x = {1, 1 + 0x1p-24}, w = {1, 1}, b(2), y(2), moments(3);
  RunOk(program::LayerNormForward{.epsilon = 1},
        {Of(x, {1, 2}), Of(w, {2}), Of(b, {2}), Of(y, {1, 2}), Of(moments, {1, 3})});
  EXPECT_THAT(moments, Pointwise(DoubleNear(1e-15), Vector{1, 0x1p-25, 1}));
  EXPECT_THAT(y, Pointwise(DoubleNear(1e-20), Vector{-0x1p-25, 0x1p-25}));
}

// Of x = 1, 3, 5, 7 with epsilon 4: x̂ = −1, −1/3, 1/3, 1. With w = 2, 1, 1, 1/2 and dy = 3, 0, 0, 6, g is 6, 0, 0, 3, whose
// mean is 9/4, and that of g·x̂ −3/4.
TEST(Ref, LayerNormalisationsGradients) {
  Vector x = {1, 3, 5, 7}, dy = {3, 0, 0, 6}, moments = {4, 0, 1.0 / 3}, w = {2, 1, 1, 0.5}, dx(4), dw(4), db(4);
  RunOk(program::LayerNormBackwardData{}, {Of(x, {1, 4}), Of(dy, {1, 4}), Of(moments, {1, 3}), Of(w, {4}), Of(dx, {1, 4})});
  EXPECT_THAT(dx, Pointwise(DoubleNear(1e-15), Vector{3.0 / 3, -2.5 / 3, -2.0 / 3, 1.5 / 3}));
  RunOk(program::LayerNormBackwardWeights{}, {Of(x, {1, 4}), Of(dy, {1, 4}), Of(moments, {1, 3}), Of(dw, {4}), Of(db, {4})});
  EXPECT_THAT(dw, Pointwise(DoubleNear(1e-15), Vector{-3, 0, 0, 6}));
  EXPECT_THAT(db, ElementsAre(3, 0, 0, 6));
}

// Mean 4 and variance 5 of four elements: unbiased 20/3.
TEST(Ref, BatchNormalisationTracksTheUnbiasedVariance) {
  Vector sums = {16, 84}, mean = {8}, var = {1}, recalled(2);
  RunOk(program::BatchNormTrack{.count = 4, .momentum = 0.25}, {Of(sums, {1, 2, 1}), Of(mean, {1}), Of(var, {1})});
  EXPECT_THAT(mean, ElementsAre(7));
  EXPECT_THAT(var, Pointwise(DoubleNear(1e-15), Vector{0.75 + 5.0 / 3}));
  Vector one = {3, 9};  // of a single element, whose variance stays what it is
  RunOk(program::BatchNormTrack{.count = 1, .momentum = 1}, {Of(one, {1, 2, 1}), Of(mean, {1}), Of(var, {1})});
  EXPECT_THAT(mean, ElementsAre(3));
  EXPECT_THAT(var, ElementsAre(0));
  mean = {3}, var = {0.5};
  RunOk(program::BatchNormRecall{}, {Of(mean, {1}), Of(var, {1}), Of(recalled, {1, 2, 1})});
  EXPECT_THAT(recalled, ElementsAre(3, 9.5));
}

// Variances 5 and 0 and epsilon 4: factors 2/3 and 1/2. A variance below zero, which roundings may leave, is none.
TEST(Ref, BatchNormalisationIsFoldedIntoTheWeightsOfItsChannels) {
  Vector weights = {3, 6, 10, 20}, mean = {4, 8}, var = {5, -1}, w = {2, 1}, b = {1, 3}, bias = {7, 6}, folded(4), added(2);
  RunOk(program::BatchNormFold{.epsilon = 4},
        {Of(weights, {2, 2}), Of(mean, {2}), Of(var, {2}), Of(w, {2}), Of(b, {2}), Of(folded, {2, 2}), Of(added, {2})});
  EXPECT_THAT(folded, Pointwise(DoubleNear(1e-14), Vector{2, 4, 5, 10}));
  EXPECT_THAT(added, Pointwise(DoubleNear(1e-14), Vector{1 - 8.0 / 3, -1}));
  RunOk(program::BatchNormFold{.epsilon = 4}, {Of(weights, {2, 2}), Of(mean, {2}), Of(var, {2}), Of(w, {2}), Of(b, {2}),
                                               Of(bias, {2}), Of(folded, {2, 2}), Of(added, {2})});
  EXPECT_THAT(added, Pointwise(DoubleNear(1e-14), Vector{3, 2}));
}

TEST(Ref, DropoutDrawsByTheGlobalElement) {
  constexpr int64_t kRows = 3, kColumns = 5;
  Vector scalars = {0, 7, 1234}, x(kRows * kColumns, 1), y(kRows * kColumns), part_y(4), part_x(4, 1);
  const program::Dropout whole{.rate = 0.25, .stream = 2, .global_shape = {kRows, kColumns}, .offset = {0, 0}};
  RunOk(whole, {Of(scalars, {3}), Of(x, {kRows, kColumns}), Of(y, {kRows, kColumns})});
  Vector expected;
  for (uint64_t i = 0; i < kRows * kColumns; ++i) {
    expected.push_back(program::DropoutBlock(1234, 2, 7, i / 4, 0.25).keep[i % 4] ? 1 / 0.75 : 0.0);
  }
  EXPECT_THAT(y, Pointwise(testing::DoubleEq(), expected));

  program::Dropout part = whole;
  part.offset = {1, 2};
  RunOk(part, {Of(scalars, {3}), Of(part_x, {2, 2}), Of(part_y, {2, 2})});
  EXPECT_THAT(part_y, ElementsAre(y[7], y[8], y[12], y[13]));
}

TEST(Ref, SoftmaxOverwritesItsMetricsAndSkipsPadding) {
  Vector logits = {0, std::log(3.0), 9, 9, 0, 0}, p(6), metrics(4, 99), d(6), count = {2};
  std::vector<int32_t> labels = {1, -1, 1};
  RunOk(program::SoftmaxCrossEntropyForward{}, {Of(logits, {3, 2}), Of(labels, {3}), Of(p, {3, 2}), Of(metrics, {4})});
  EXPECT_THAT(p, Pointwise(DoubleNear(1e-15), Vector{0.25, 0.75, 0.5, 0.5, 0.5, 0.5}));
  // The last sample's label has an equal logit of smaller index before it.
  EXPECT_THAT(metrics, Pointwise(DoubleNear(1e-15), Vector{-std::log(0.75) - std::log(0.5), 1, 2, 2}));
  RunOk(program::SoftmaxCrossEntropyBackward{}, {Of(count, {1}), Of(p, {3, 2}), Of(labels, {3}), Of(d, {3, 2})});
  EXPECT_THAT(d, Pointwise(DoubleNear(1e-15), Vector{0.125, -0.125, 0, 0, 0.25, -0.25}));
}

TEST(Ref, LabelsThatAreNotNegativeAreCountedInAllOperands) {
  std::vector<int32_t> first = {1, -1, 0}, second = {-1, 7};
  Vector count(1, 99);
  RunOk(program::CountLabels{}, {Of(first, {3}), Of(second, {2}), Of(count, {1})});
  EXPECT_THAT(count, ElementsAre(3));
}

// However few labels there are: a batch of padding alone has none.
TEST(Ref, AGradientIsDividedByOneLabelAtLeast) {
  Vector p = {0.25, 0.75, 0.5, 0.5}, d(4, 99), count = {0};
  std::vector<int32_t> labels = {1, -1};
  RunOk(program::SoftmaxCrossEntropyBackward{}, {Of(count, {1}), Of(p, {2, 2}), Of(labels, {2}), Of(d, {2, 2})});
  EXPECT_THAT(d, ElementsAre(0.25, -0.25, 0, 0));
}

// The targets are 0.9 for the label and 0.1 for the other class.
TEST(Ref, ALossMayBeSmoothedAndWeighted) {
  Vector logits = {0, std::log(3.0)}, p(2), metrics(4, 99), d(2), count = {2};
  std::vector<int32_t> labels = {1};
  RunOk(program::SoftmaxCrossEntropyForward{.weight = 0.3, .label_smoothing = 0.2},
        {Of(logits, {1, 2}), Of(labels, {1}), Of(p, {1, 2}), Of(metrics, {4})});
  EXPECT_THAT(p, Pointwise(DoubleNear(1e-15), Vector{0.25, 0.75}));
  EXPECT_THAT(metrics, Pointwise(DoubleNear(1e-15), Vector{-0.3 * (0.1 * std::log(0.25) + 0.9 * std::log(0.75)), 1, 1, 1}));
  RunOk(program::SoftmaxCrossEntropyBackward{.weight = 0.3, .label_smoothing = 0.2},
        {Of(count, {1}), Of(p, {1, 2}), Of(labels, {1}), Of(d, {1, 2})});
  EXPECT_THAT(d, Pointwise(DoubleNear(1e-15), Vector{0.3 * 0.15 / 2, -0.3 * 0.15 / 2}));
}

TEST(Ref, TheSixthLargestLogitIsNoTop5Hit) {
  Vector logits = {6, 5, 4, 3, 2, 1, 0}, p(7), metrics(4);
  std::vector<int32_t> labels = {0};
  const std::vector<Tensor> operands = {Of(logits, {1, 7}), Of(labels, {1}), Of(p, {1, 7}), Of(metrics, {4})};
  const std::vector<Vector> hits = {{1, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 0}, {0, 0}};
  for (int label = 0; label < 7; ++label) {
    labels[0] = label;
    RunOk(program::SoftmaxCrossEntropyForward{}, operands);
    EXPECT_THAT((Vector{metrics[program::Metric::kTop1Hits], metrics[program::Metric::kTop5Hits]}),
                ElementsAreArray(hits[label]));
  }
}

TEST(Ref, ALabelBeyondTheClassesIsAnError) {
  Vector logits(4), p(4), metrics(4), count(1, 1), d(4);
  std::vector<int32_t> labels = {1, 2};
  const absl::Status forward = ref::Run(program::SoftmaxCrossEntropyForward{},
                                        {Of(logits, {2, 2}), Of(labels, {2}), Of(p, {2, 2}), Of(metrics, {4})});
  const absl::Status backward =
      ref::Run(program::SoftmaxCrossEntropyBackward{}, {Of(count, {1}), Of(p, {2, 2}), Of(labels, {2}), Of(d, {2, 2})});
  for (const absl::Status& status : {forward, backward}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "sample 1")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "2 classes")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "found 2")) << status;
  }
}

TEST(Ref, CheckFinite) {
  Vector x = {1, std::numeric_limits<double>::max(), -0.0};
  std::vector<int32_t> flag = {7};
  RunOk(program::CheckFinite{}, {Of(x, {3}), Of(flag, {1})});
  EXPECT_EQ(flag[0], 1);
  for (double bad : {kNan, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    x[1] = bad;
    RunOk(program::CheckFinite{}, {Of(x, {3}), Of(flag, {1})});
    EXPECT_EQ(flag[0], 0) << bad;
  }
}

// v = 0.5·4 − 0.25·(0.5·8 + 2) = 0.5, w = 8.5
TEST(Ref, SgdUpdate) {
  Vector scalars = {0.25, 0, 0}, g = {2}, v = {4}, w = {8};
  RunOk(program::SgdUpdate{.momentum = 0.5, .weight_decay = 0.5}, {Of(scalars, {3}), Of(g, {1}), Of(v, {1}), Of(w, {1})});
  EXPECT_EQ(v[0], 0.5);
  EXPECT_EQ(w[0], 8.5);
}

}  // namespace
}  // namespace colonnade::cpu::ref
