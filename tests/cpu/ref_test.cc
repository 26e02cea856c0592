// The oracle against derivatives by finite differences, in double: an error of a formula cannot hide behind itself.

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "cpu/ref/kernels.h"
#include "gtest/gtest.h"

namespace colonnade::cpu::ref {
namespace {

using program::DType;
using program::Shape;
using Vector = std::vector<double>;

Tensor Of(Vector& values, const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (int d = static_cast<int>(shape.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return {values.data(), DType::kF64, shape, strides};
}

Vector Random(const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Vector values(program::ElementCount(shape));
  for (double& v : values) v = normal(random);
  return values;
}

absl::Status Apply(const program::Op& op, const std::vector<Tensor>& operands) { return ref::Run(op, operands); }

// Compares `gradient` with the derivative of Σ r·f(x) in every element of x.
void ExpectGradient(const std::function<Vector(Vector&)>& f, Vector x, const Vector& r, const Vector& gradient,
                    const char* what) {
  constexpr double kEpsilon = 1e-6;
  auto weighted = [&](Vector& at) {
    const Vector y = f(at);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += r[i] * y[i];
    return sum;
  };
  ASSERT_EQ(gradient.size(), x.size()) << what;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kEpsilon;
    const double above = weighted(x);
    x[i] = at - kEpsilon;
    const double below = weighted(x);
    x[i] = at;
    EXPECT_NEAR((above - below) / (2 * kEpsilon), gradient[i], 1e-7 * (1 + std::abs(gradient[i])))
        << what << " element " << i;
  }
}

TEST(Gradients, Convolution) {
  const program::Window window{3, 2, 2, 1, 1, 0, 1, 0};
  const Shape x = {2, 4, 5, 4}, w = {6, 2, 3, 2}, b = {6}, y = {2, 6, 3, 3};
  Vector xv = Random(x, 1), wv = Random(w, 2), bv = Random(b, 3), r = Random(y, 4);
  auto forward = [&](Vector& xs, Vector& ws, Vector& bs) {
    Vector out(program::ElementCount(y));
    EXPECT_TRUE(Apply(program::ConvForward{window, 2, true, false}, {Of(xs, x), Of(ws, w), Of(bs, b), Of(out, y)}).ok());
    return out;
  };
  Vector dx(xv.size()), dw(wv.size()), db(bv.size());
  ASSERT_TRUE(Apply(program::ConvBackwardData{window, 2}, {Of(r, y), Of(wv, w), Of(dx, x)}).ok());
  ASSERT_TRUE(Apply(program::ConvBackwardWeights{window, 2, true}, {Of(xv, x), Of(r, y), Of(dw, w), Of(db, b)}).ok());
  ExpectGradient([&](Vector& v) { return forward(v, wv, bv); }, xv, r, dx, "dx");
  ExpectGradient([&](Vector& v) { return forward(xv, v, bv); }, wv, r, dw, "dw");
  ExpectGradient([&](Vector& v) { return forward(xv, wv, v); }, bv, r, db, "db");
}

TEST(Gradients, FullyConnectedAndBias) {
  const Shape x = {3, 5}, w = {4, 5}, b = {4}, y = {3, 4};
  Vector xv = Random(x, 1), wv = Random(w, 2), bv = Random(b, 3), r = Random(y, 4);
  auto forward = [&](Vector& xs, Vector& ws, Vector& bs) {
    Vector out(program::ElementCount(y));
    EXPECT_TRUE(Apply(program::FullyConnectedForward{true, false}, {Of(xs, x), Of(ws, w), Of(bs, b), Of(out, y)}).ok());
    return out;
  };
  Vector dx(xv.size()), dw(wv.size()), db(bv.size()), db2(bv.size());
  ASSERT_TRUE(Apply(program::FullyConnectedBackwardData{}, {Of(r, y), Of(wv, w), Of(dx, x)}).ok());
  ASSERT_TRUE(Apply(program::FullyConnectedBackwardWeights{true}, {Of(xv, x), Of(r, y), Of(dw, w), Of(db, b)}).ok());
  ASSERT_TRUE(Apply(program::BiasBackward{}, {Of(r, y), Of(db2, b)}).ok());
  ExpectGradient([&](Vector& v) { return forward(v, wv, bv); }, xv, r, dx, "dx");
  ExpectGradient([&](Vector& v) { return forward(xv, v, bv); }, wv, r, dw, "dw");
  ExpectGradient([&](Vector& v) { return forward(xv, wv, v); }, bv, r, db, "db");
  EXPECT_EQ(db, db2);
}

TEST(Gradients, PoolingReluAndLrn) {
  const Shape x = {2, 4, 5, 4}, y = {2, 4, 3, 2};
  const program::Window window{3, 2, 2, 2, 1, 0, 1, 0};
  Vector xv = Random(x, 1), r = Random(y, 2), rx = Random(x, 3), dx(xv.size());
  Vector out(r.size()), argmax(r.size()), out_x(xv.size());
  ASSERT_TRUE(Apply(program::MaxPoolForward{window}, {Of(xv, x), Of(out, y), Of(argmax, y)}).ok());
  ASSERT_TRUE(Apply(program::MaxPoolBackward{window}, {Of(argmax, y), Of(r, y), Of(dx, x)}).ok());
  ExpectGradient(
      [&](Vector& v) {
        EXPECT_TRUE(Apply(program::MaxPoolForward{window}, {Of(v, x), Of(out, y)}).ok());
        return out;
      },
      xv, r, dx, "max pooling");
  for (const bool count_pad : {true, false}) {
    ASSERT_TRUE(Apply(program::AvgPoolBackward{window, count_pad}, {Of(r, y), Of(dx, x)}).ok());
    ExpectGradient(
        [&](Vector& v) {
          EXPECT_TRUE(Apply(program::AvgPoolForward{window, count_pad}, {Of(v, x), Of(out, y)}).ok());
          return out;
        },
        xv, r, dx, "average pooling");
  }
  ASSERT_TRUE(Apply(program::ActivationForward{program::Activation::kRelu}, {Of(xv, x), Of(out_x, x)}).ok());
  ASSERT_TRUE(Apply(program::ActivationBackward{program::Activation::kRelu}, {Of(out_x, x), Of(rx, x), Of(dx, x)}).ok());
  ExpectGradient(
      [&](Vector& v) {
        EXPECT_TRUE(Apply(program::ActivationForward{program::Activation::kRelu}, {Of(v, x), Of(out_x, x)}).ok());
        return out_x;
      },
      xv, rx, dx, "relu");
  for (int64_t groups : {1, 2}) {
    const program::LrnForward forward{3, groups, 0.5, 0.75, 2};
    ASSERT_TRUE(Apply(program::LrnBackward{3, groups, 0.5, 0.75, 2}, {Of(xv, x), Of(rx, x), Of(dx, x)}).ok());
    ExpectGradient(
        [&](Vector& v) {
          EXPECT_TRUE(Apply(forward, {Of(v, x), Of(out_x, x)}).ok());
          return out_x;
        },
        xv, rx, dx, "lrn");
  }
}

TEST(Gradients, BatchNormalisation) {
  const Shape x = {4, 3, 2, 3}, c = {3};
  for (int64_t groups : {1, 2, 4}) {
    const Shape of_sums = {groups, 2, 3};
    const int64_t count = 24 / groups;
    Vector xv = Random(x, 1), wv = Random(c, 2), bv = Random(c, 3), r = Random(x, 4), sums(6 * groups), dsums(6 * groups);
    auto forward = [&](Vector& xs, Vector& ws, Vector& bs) {
      Vector out(xs.size());
      EXPECT_TRUE(Apply(program::BatchNormSums{}, {Of(xs, x), Of(sums, of_sums)}).ok());
      EXPECT_TRUE(
          Apply(program::BatchNormForward{count, 0.5}, {Of(xs, x), Of(sums, of_sums), Of(ws, c), Of(bs, c), Of(out, x)})
              .ok());
      return out;
    };
    forward(xv, wv, bv);
    Vector dx(xv.size()), dw(3), db(3);
    ASSERT_TRUE(Apply(program::BatchNormBackwardSums{count, 0.5},
                      {Of(xv, x), Of(r, x), Of(sums, of_sums), Of(dsums, of_sums), Of(dw, c), Of(db, c)})
                    .ok());
    ASSERT_TRUE(Apply(program::BatchNormBackward{count, 0.5},
                      {Of(xv, x), Of(r, x), Of(sums, of_sums), Of(dsums, of_sums), Of(wv, c), Of(dx, x)})
                    .ok());
    ExpectGradient([&](Vector& v) { return forward(v, wv, bv); }, xv, r, dx, "dx");
    ExpectGradient([&](Vector& v) { return forward(xv, v, bv); }, wv, r, dw, "dw");
    ExpectGradient([&](Vector& v) { return forward(xv, wv, v); }, bv, r, db, "db");
  }
}

TEST(Gradients, DropoutAndLoss) {
  const Shape x = {4, 6}, s = {3}, labels = {4}, metrics = {4};
  Vector scalars = {0.1, 5, 9}, count = {3}, xv = Random(x, 1), r = Random(x, 2), dx(xv.size()), out(xv.size());
  const program::Dropout dropout{0.4, 1, {8, 6}, {4, 0}};
  ASSERT_TRUE(Apply(dropout, {Of(scalars, s), Of(r, x), Of(dx, x)}).ok());
  ExpectGradient(
      [&](Vector& v) {
        EXPECT_TRUE(Apply(dropout, {Of(scalars, s), Of(v, x), Of(out, x)}).ok());
        return out;
      },
      xv, r, dx, "dropout");
  Vector label = {2, -1, 5, 0}, p(xv.size()), sums(4);
  auto loss = [&](Vector& v) {
    EXPECT_TRUE(
        Apply(program::SoftmaxCrossEntropyForward{}, {Of(v, x), Of(label, labels), Of(p, x), Of(sums, metrics)}).ok());
    return Vector{sums[program::Metric::kLossSum] / 3};
  };
  loss(xv);
  EXPECT_EQ(sums[program::Metric::kLabelCount], 3);
  ASSERT_TRUE(Apply(program::SoftmaxCrossEntropyBackward{}, {Of(count, {1}), Of(p, x), Of(label, labels), Of(dx, x)}).ok());
  ExpectGradient(loss, xv, {1}, dx, "loss");
}

TEST(Softmax, HitsCountClassesThatStandBefore) {
  const Shape x = {2, 7}, labels = {2}, metrics = {4};
  Vector logits = {1, 1, 1, 1, 1, 1, 1, 9, 8, 7, 6, 5, 4, 3}, label = {4, 5}, p(14), sums(4);
  ASSERT_TRUE(
      Apply(program::SoftmaxCrossEntropyForward{}, {Of(logits, x), Of(label, labels), Of(p, x), Of(sums, metrics)}).ok());
  EXPECT_EQ(sums[program::Metric::kTop1Hits], 0);
  EXPECT_EQ(sums[program::Metric::kTop5Hits], 1);  // four equal logits of smaller index stand before; the other is sixth
  label = {7, 0};
  EXPECT_EQ(
      Apply(program::SoftmaxCrossEntropyForward{}, {Of(logits, x), Of(label, labels), Of(p, x), Of(sums, metrics)}).code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(Sgd, IsKrizhevskysUpdate) {
  Vector scalars = {0.1, 0, 0}, g = {2}, v = {0.5}, w = {3};
  ASSERT_TRUE(Apply(program::SgdUpdate{0.9, 0.01}, {Of(scalars, {3}), Of(g, {1}), Of(v, {1}), Of(w, {1})}).ok());
  EXPECT_DOUBLE_EQ(v[0], 0.9 * 0.5 - 0.1 * (0.01 * 3 + 2));
  EXPECT_DOUBLE_EQ(w[0], 3 + v[0]);
}

// A weight of 3 after each of four steps, whose gradients and rates change.
std::vector<double> Path(program::SgdForm form, const std::vector<double>& rates) {
  const double gradients[] = {2, -1, 0.5, 0.25};
  Vector v = {0}, w = {3};
  std::vector<double> path;
  for (size_t i = 0; i < 4; ++i) {
    Vector scalars = {rates[i], 0, 0}, g = {gradients[i]};
    EXPECT_TRUE(Apply(program::SgdUpdate{0.9, 0.01, form}, {Of(scalars, {3}), Of(g, {1}), Of(v, {1}), Of(w, {1})}).ok());
    path.push_back(w[0]);
  }
  return path;
}

// What torch.optim.SGD of PyTorch 2.15 gives in double.
TEST(Sgd, PyTorchsFormsAreThoseOfPyTorch) {
  const std::vector<double> rates = {0.1, 0.1, 0.05, 0.05};
  const std::vector<double> expected[] = {{2.797, 2.711503, 2.6466735985, 2.5745038003507501},
                                          {2.6143, 2.63490283, 2.5503473808115, 2.471760352803579}};
  const std::vector<double> found[] = {Path(program::SgdForm::kPyTorch, rates), Path(program::SgdForm::kNesterov, rates)};
  for (int nesterov : {0, 1}) {
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[nesterov][i], expected[nesterov][i], 1e-14) << i;
  }
}

TEST(Sgd, TheFormsOfKrizhevskyAndPyTorchDifferWhereTheRateChangesAlone) {
  using enum program::SgdForm;
  const std::vector<double> constant(4, 0.1), changing = {0.1, 0.1, 0.05, 0.05};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(Path(kKrizhevsky, constant)[i], Path(kPyTorch, constant)[i], 1e-14);
  EXPECT_GT(std::abs(Path(kKrizhevsky, changing)[2] - Path(kPyTorch, changing)[2]), 1e-3);
}

}  // namespace
}  // namespace colonnade::cpu::ref
