#include "tests/cpu/op_cases.h"

#include "absl/strings/str_cat.h"

namespace colonnade::cpu {
namespace {

using program::DType;
using program::Shape;
using Role = OpOperand::Role;

OpOperand In(Shape shape) { return {std::move(shape)}; }
OpOperand Out(Shape shape) { return {std::move(shape), Role::kOutput}; }
OpOperand Weight(Shape shape, Role role = Role::kInput) { return {std::move(shape), role, DType::kF32, 0}; }
OpOperand Scalars() { return {{program::kStepScalarCount}, Role::kScalars, DType::kF64}; }

struct ConvShape {
  int64_t n, c, k, size_h, size_w, kernel_h, kernel_w, stride, pad, groups;
};

void AddConv(const ConvShape& s, std::vector<OpCase>& cases) {
  const program::Window window{s.kernel_h, s.kernel_w, s.stride, s.stride, s.pad, s.pad};
  const int64_t p = (s.size_h + 2 * s.pad - s.kernel_h) / s.stride + 1, q = (s.size_w + 2 * s.pad - s.kernel_w) / s.stride + 1;
  const Shape x = {s.n, s.c, s.size_h, s.size_w}, y = {s.n, s.k, p, q}, w = {s.k, s.c / s.groups, s.kernel_h, s.kernel_w}, b = {s.k};
  const std::string name = absl::StrCat("n", s.n, "c", s.c, "k", s.k, "_", s.size_h, "x", s.size_w, "_", s.kernel_h, "x", s.kernel_w,
                                        "s", s.stride, "p", s.pad, "g", s.groups);
  for (const bool relu : {false, true}) {
    cases.push_back({absl::StrCat("conv_forward_", relu ? "relu_" : "", name),
                     program::ConvForward{window, s.groups, true, relu}, {In(x), Weight(w), In(b), Out(y)}, true});
  }
  cases.push_back({"conv_forward_no_bias_" + name, program::ConvForward{window, s.groups, false, false}, {In(x), Weight(w), Out(y)}, true});
  cases.push_back({"conv_backward_data_" + name, program::ConvBackwardData{window, s.groups}, {In(y), Weight(w), Out(x)}, true});
  cases.push_back({"conv_backward_weights_" + name, program::ConvBackwardWeights{window, s.groups, true},
                   {In(x), In(y), Weight(w, Role::kOutput), Out(b)}, true});
}

void AddFullyConnected(int64_t n, int64_t in, int64_t out, std::vector<OpCase>& cases) {
  const std::string name = absl::StrCat("n", n, "i", in, "o", out);
  for (const bool relu : {false, true}) {
    cases.push_back({absl::StrCat("fc_forward_", relu ? "relu_" : "", name), program::FullyConnectedForward{true, relu},
                     {In({n, in}), Weight({out, in}), In({out}), Out({n, out})}, true});
  }
  cases.push_back({"fc_backward_data_" + name, program::FullyConnectedBackwardData{}, {In({n, out}), Weight({out, in}), Out({n, in})}, true});
  cases.push_back({"fc_backward_weights_" + name, program::FullyConnectedBackwardWeights{true},
                   {In({n, in}), In({n, out}), Weight({out, in}, Role::kOutput), Out({out})}, true});
}

void AddPool(int64_t c, int64_t h, int64_t w, program::Window window, std::vector<OpCase>& cases) {
  const Shape x = {2, c, h, w};
  const Shape y = {2, c, (h + 2 * window.pad_h - window.size_h) / window.stride_h + 1,
                   (w + 2 * window.pad_w - window.size_w) / window.stride_w + 1};
  const std::string name = absl::StrCat("c", c, "_", h, "x", w, "_k", window.size_h, "s", window.stride_h, "p", window.pad_h);
  cases.push_back({"max_pool_forward_" + name, program::MaxPoolForward{window}, {In(x), Out(y)}, true});
  for (const bool count_pad : {true, false}) {
    const bool exact = window.size_h == 2 && window.pad_h == 0;
    cases.push_back({absl::StrCat("avg_pool_forward_", count_pad, "_", name), program::AvgPoolForward{window, count_pad}, {In(x), Out(y)}, exact});
    cases.push_back({absl::StrCat("avg_pool_backward_", count_pad, "_", name), program::AvgPoolBackward{window, count_pad}, {In(y), Out(x)}, exact});
  }
}

void AddElementwise(const Shape& shape, std::vector<OpCase>& cases) {
  const std::string name = program::ToString(shape);
  cases.push_back({"relu_forward_" + name, program::ReluForward{}, {In(shape), Out(shape)}, true});
  cases.push_back({"relu_backward_" + name, program::ReluBackward{}, {In(shape), In(shape), Out(shape)}, true});
  cases.push_back({"sum_" + name, program::Sum{}, {In(shape), In(shape), In(shape), Out(shape)}, true});
  cases.push_back({"copy_" + name, program::Copy{}, {In(shape), Out(shape)}, true});
  cases.push_back({"bias_forward_" + name, program::BiasForward{}, {In(shape), In({shape[1]}), Out(shape)}, true});
  cases.push_back({"bias_backward_" + name, program::BiasBackward{}, {In(shape), Out({shape[1]})}, true});
  Shape offset(shape.size(), 0), global = shape;
  global[0] *= 2;
  global[1] *= 3;
  offset[0] = shape[0];
  offset[1] = shape[1];
  cases.push_back({"dropout_" + name, program::Dropout{0.5, 3, global, offset}, {Scalars(), In(shape), Out(shape)}, true});
  cases.push_back({"check_finite_" + name, program::CheckFinite{}, {In(shape), {{1}, Role::kOutput, DType::kI32}}, true});
}

}  // namespace

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  for (const ConvShape& s : std::vector<ConvShape>{{1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
                                                   {2, 3, 16, 13, 13, 5, 5, 2, 2, 1},
                                                   {3, 16, 32, 7, 9, 3, 3, 1, 1, 1},
                                                   {2, 31, 33, 6, 6, 3, 3, 1, 1, 1},
                                                   {2, 32, 64, 8, 8, 3, 3, 1, 1, 2},
                                                   {2, 48, 96, 5, 5, 3, 3, 1, 1, 1},
                                                   {2, 24, 24, 6, 5, 3, 1, 1, 0, 4},
                                                   {5, 7, 11, 8, 8, 2, 3, 1, 1, 1},
                                                   {2, 3, 96, 35, 35, 11, 11, 4, 0, 1},
                                                   {1, 64, 8, 4, 4, 1, 1, 1, 0, 2}}) {
    AddConv(s, cases);
  }
  AddFullyConnected(1, 1, 1, cases);
  AddFullyConnected(5, 31, 33, cases);
  AddFullyConnected(8, 128, 64, cases);
  AddFullyConnected(33, 257, 10, cases);
  AddPool(3, 7, 9, {2, 2, 2, 2, 0, 0}, cases);
  AddPool(16, 13, 13, {3, 3, 2, 2, 0, 0}, cases);
  AddPool(33, 8, 8, {3, 3, 2, 2, 1, 1}, cases);
  for (const Shape& shape : std::vector<Shape>{{2, 16, 5, 7}, {3, 31, 4, 4}, {1, 1, 1, 1}, {5, 33}, {4, 64}}) AddElementwise(shape, cases);
  for (const auto& [c, groups] : std::vector<std::pair<int64_t, int64_t>>{{16, 1}, {32, 2}, {12, 3}, {5, 1}}) {
    const Shape x = {2, c, 4, 5};
    cases.push_back({absl::StrCat("lrn_forward_c", c, "g", groups), program::LrnForward{5, groups, 0.3, 0.75, 2.0}, {In(x), Out(x)}});
  }
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {7, 10}, {33, 31}}) {
    const OpOperand labels{{n}, Role::kLabels, DType::kI32};
    cases.push_back({absl::StrCat("softmax_forward_n", n, "k", k), program::SoftmaxCrossEntropyForward{},
                     {In({n, k}), labels, Out({n, k}), {{program::kMetricCount}, Role::kOutput, DType::kF64}}});
    cases.push_back({absl::StrCat("softmax_backward_n", n, "k", k), program::SoftmaxCrossEntropyBackward{},
                     {Scalars(), In({n, k}), labels, Out({n, k})}});
  }
  for (const int64_t n : {1, 33, 1000}) {
    cases.push_back({absl::StrCat("sgd_", n), program::SgdUpdate{0.5, 0.25},
                     {Scalars(), In({n}), {{n}, Role::kAccumulated}, {{n}, Role::kAccumulated}}, true});
  }
  return cases;
}

}  // namespace colonnade::cpu
