// One list for all ops, so that one sees which has no case.
#include "op_cases.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "op_case_builder.h"

namespace colonnade::conformance {
namespace {

// What follows the windowed sum of a layer.
struct Epilogue {
  bool bias = false;
  bool relu = false;
  bool sgd = false;       // and an update of w and b from their gradients
  bool summands = false;  // y and dx are summands of sums over devices; there is nothing else then
};

// The operands of a layer with weights.
struct Layer {
  int x, w, b = -1, y, dy, dz, dx, dw, db = -1;

  Layer(Case& c, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape, const Epilogue& epilogue) {
    x = c.Input("x", x_shape);
    w = c.Parameter("w", w_shape);
    if (epilogue.bias) b = c.Parameter("b", {w_shape[0]});
    y = c.Output("y", y_shape, epilogue.summands);
    dz = dy = c.Input("dy", y_shape);
    if (epilogue.relu) dz = c.Output("dz", y_shape);
    dx = c.Output("dx", x_shape, epilogue.summands);
    dw = c.Like("dw", w, Role::kOutput);
    if (epilogue.bias) db = c.Like("db", b, Role::kOutput);
  }
};

OpCase DoneLayer(Case c, const Layer& l, const Epilogue& epilogue) {
  if (epilogue.sgd) {
    const int scalars = c.Scalars();
    const program::SgdUpdate sgd{.momentum = 0.5, .weight_decay = 0.0625};
    c.Run(sgd, {scalars, l.dw, c.Like("vw", l.w, Role::kParameter), l.w});
    if (epilogue.bias) c.Run(sgd, {scalars, l.db, c.Like("vb", l.b, Role::kParameter), l.b});
  }
  GradientCheck check{.y = l.y, .dy = l.dy, .gradients = {{l.x, l.dx}, {l.w, l.dw}}};
  if (epilogue.bias) check.gradients.push_back({l.b, l.db});
  return std::move(c).Done(check);
}

OpCase Conv(const std::string& name, const Shape& x, int64_t outputs, const Window& window, int64_t groups = 1,
            const Epilogue& e = {}) {
  Case c(absl::StrCat("conv_", name));
  const Layer l(c, x, {outputs, x[1] / groups, window.size_h, window.size_w}, WindowedShape(x, outputs, window), e);
  c.Run(program::ConvForward{.window = window, .groups = groups, .bias = e.bias, .relu = e.relu},
        Present({l.x, l.w, l.b, l.y}));
  if (e.relu) c.Run(program::ActivationBackward{program::Activation::kRelu}, {l.y, l.dy, l.dz});
  c.Run(program::ConvBackwardWeights{.window = window, .groups = groups, .bias = e.bias}, Present({l.x, l.dz, l.dw, l.db}));
  c.Run(program::ConvBackwardData{.window = window, .groups = groups}, {l.dz, l.w, l.dx});
  return DoneLayer(std::move(c), l, e);
}

OpCase FullyConnected(int64_t n, int64_t in, int64_t out, const Epilogue& e = {}) {
  Case c(absl::StrCat("fully_connected_", n, "x", in, "_to_", out, e.bias ? "_bias" : "", e.relu ? "_relu" : "",
                      e.sgd ? "_sgd" : "", e.summands ? "_summands" : ""));
  const Layer l(c, {n, in}, {out, in}, {n, out}, e);
  c.Run(program::FullyConnectedForward{.bias = e.bias, .relu = e.relu}, Present({l.x, l.w, l.b, l.y}));
  if (e.relu) c.Run(program::ActivationBackward{program::Activation::kRelu}, {l.y, l.dy, l.dz});
  c.Run(program::FullyConnectedBackwardWeights{.bias = e.bias}, Present({l.x, l.dz, l.dw, l.db}));
  c.Run(program::FullyConnectedBackwardData{}, {l.dz, l.w, l.dx});
  return DoneLayer(std::move(c), l, e);
}

OpCase Bias(const std::string& name, const Shape& shape) {
  Case c(absl::StrCat("bias_", name));
  const int x = c.Input("x", shape), b = c.Parameter("b", {shape[1]}), y = c.Output("y", shape);
  const int dy = c.Input("dy", shape), db = c.Like("db", b, Role::kOutput);
  c.Run(program::BiasForward{}, {x, b, y});
  c.Run(program::BiasBackward{}, {dy, db});
  return std::move(c).Done({.y = y, .dy = dy, .gradients = {{b, db}}});
}

// Operands of an op from x to y and back.
struct Map {
  int x, y, dy, dx;
  Map(Case& c, const Shape& in, const Shape& out)
      : x(c.Input("x", in)), y(c.Output("y", out)), dy(c.Input("dy", out)), dx(c.Output("dx", in)) {}

  GradientCheck check() const { return {.y = y, .dy = dy, .gradients = {{x, dx}}}; }
};

OpCase Activation(program::Activation activation, const std::string& name, const Shape& shape) {
  const bool keeps_input = program::WithFormula(activation, [](auto formula) { return formula.kKeepsInput; });
  const program::ActivationForward forward{activation};
  Case c(absl::StrCat(program::Name(forward), "_", name));
  const Map m(c, shape, shape);
  c.Run(forward, {m.x, m.y});
  c.Run(program::ActivationBackward{activation}, {keeps_input ? m.x : m.y, m.dy, m.dx});
  OpCase done = std::move(c).Done(m.check());
  return activation == program::Activation::kRelu ? done : Inexact(done);
}

OpCase MaxPool(const std::string& name, const Shape& shape, const Window& window) {
  Case c(absl::StrCat("max_pool_", name));
  const Map m(c, shape, WindowedShape(shape, shape[1], window));
  const int argmax =
      c.Add({.name = "argmax", .shape = WindowedShape(shape, shape[1], window), .role = Role::kSaved, .dtype = DType::kU8});
  c.Run(program::MaxPoolForward{window}, {m.x, m.y, argmax});
  c.Run(program::MaxPoolBackward{window}, {argmax, m.dy, m.dx});
  return std::move(c).Done(m.check());
}

OpCase MaxPoolWithoutArgmax(const Shape& shape, const Window& window) {
  Case c(absl::StrCat("max_pool_evaluation_", shape[1]));
  const int x = c.Input("x", shape), y = c.Output("y", WindowedShape(shape, shape[1], window));
  c.Run(program::MaxPoolForward{window}, {x, y});
  return std::move(c).Done();
}

// Where all divisors are a window's 2^k cells, means of integers are exact.
OpCase AvgPool(const std::string& name, const Shape& shape, const Window& window, bool count_pad) {
  Case c(absl::StrCat("avg_pool_", name, count_pad ? "" : "_without_pad"));
  const Map m(c, shape, WindowedShape(shape, shape[1], window));
  c.Run(program::AvgPoolForward{window, count_pad}, {m.x, m.y});
  c.Run(program::AvgPoolBackward{window, count_pad}, {m.dy, m.dx});
  const int64_t cells = window.size_h * window.size_w;
  const Window& w = window;
  const bool all_count = count_pad ? w.pad_bottom <= w.pad_top && w.pad_right <= w.pad_left
                                   : std::max({w.pad_top, w.pad_left, w.pad_bottom, w.pad_right}) == 0;
  const bool exact = (cells & (cells - 1)) == 0 && all_count;
  OpCase done = std::move(c).Done(m.check());
  return exact ? done : Inexact(done);
}

OpCase Lrn(const std::string& name, const Shape& shape, const program::LrnForward& op) {
  Case c(absl::StrCat("lrn_", name));
  const Map m(c, shape, shape);
  c.Run(op, {m.x, m.y});
  c.Run(program::LrnBackward{op.size, op.groups, op.alpha, op.beta, op.k}, {m.x, m.dy, m.dx});
  return Inexact(std::move(c).Done(m.check()));
}

// Scaling by 1/(1−rate) is exact for rates 0, 1/2 and 3/4.
OpCase Dropout(const std::string& name, const Shape& shape, const program::Dropout& op, bool exact = true) {
  Case c(absl::StrCat("dropout_", name));
  const int scalars = c.Scalars();
  const Map m(c, shape, shape);
  c.Run(op, {scalars, m.x, m.y});
  c.Run(op, {scalars, m.dy, m.dx});
  OpCase done = std::move(c).Done(m.check());
  return exact ? done : Inexact(done);
}

OpCase Softmax(int64_t n, int64_t classes, double weight = 1, double smoothing = 0) {
  Case c(absl::StrCat("softmax_", n, "x", classes, smoothing > 0 ? "_smoothed" : ""));
  const int x = c.Input("logits", {n, classes});
  const int labels =
      c.Add({.name = "labels", .shape = {n}, .fill = Fill::kLabels, .dtype = DType::kI32, .classes = classes});
  const int p = c.Output("p", {n, classes}), dx = c.Output("dlogits", {n, classes});
  const int count = c.Add({.name = "label_count", .shape = {1}, .role = Role::kOutput, .dtype = DType::kF64});
  const int metrics =
      c.Add({.name = "metrics", .shape = {program::Metric::kCount}, .role = Role::kOutput, .dtype = DType::kF64});
  c.Run(program::SoftmaxCrossEntropyForward{weight, smoothing}, {x, labels, p, metrics});
  c.Run(program::CountLabels{}, {labels, count});
  c.Run(program::SoftmaxCrossEntropyBackward{weight, smoothing}, {count, p, labels, dx});
  return Inexact(std::move(c).Done({.y = metrics, .gradients = {{x, dx}}}));
}

// Of micro-batches, each with labels of its own.
OpCase CountLabels(const std::vector<int64_t>& samples) {
  Case c(absl::StrCat("count_labels_of_", samples.size()));
  std::vector<int> operands;
  for (int64_t n : samples) {
    operands.push_back(c.Add(
        {.name = absl::StrCat("labels", n), .shape = {n}, .fill = Fill::kLabels, .dtype = DType::kI32, .classes = 10}));
  }
  operands.push_back(c.Add({.name = "count", .shape = {1}, .role = Role::kOutput, .dtype = DType::kF64}));
  c.Run(program::CountLabels{}, operands);
  return std::move(c).Done({.y = operands.back()});
}

OpCase CheckFinite(const std::string& name, const Shape& shape) {
  Case c(absl::StrCat("check_finite_", name));
  const int x = c.Input("x", shape);
  const int flag = c.Add({.name = "flag", .shape = {1}, .role = Role::kOutput, .dtype = DType::kI32});
  c.Run(program::CheckFinite{}, {x, flag});
  return std::move(c).Done();
}

OpCase CheckFiniteOfSeveral() {
  Case c("check_finite_several");
  std::vector<int> operands;
  for (const Shape& shape : std::vector<Shape>{{33}, {1}, {8, 4, 3, 3}, {70}}) {
    operands.push_back(c.Input(absl::StrCat("x", operands.size() / 2), shape));
    operands.push_back(c.Add(
        {.name = absl::StrCat("flag", operands.size() / 2), .shape = {1}, .role = Role::kOutput, .dtype = DType::kI32}));
  }
  c.Run(program::CheckFinite{}, operands);
  return std::move(c).Done();
}

OpCase Copy(const std::string& name, const Shape& from, const Shape& to) {
  Case c(absl::StrCat("copy_", name));
  const int x = c.Input("x", from), y = c.Output("y", to);
  c.Run(program::Copy{}, {x, y});
  return std::move(c).Done();
}

OpCase Normalise(const std::string& name, const Shape& pixels, const program::Normalise& op) {
  Case c(absl::StrCat("normalise_", name));
  const int x = c.Add({.name = "x", .shape = pixels, .role = Role::kInput, .fill = Fill::kBytes, .dtype = DType::kU8});
  Shape shape = pixels;
  std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  c.Run(op, {x, c.Output("y", shape)});
  return std::move(c).Done();
}

OpCase Sum(int terms, const std::string& name, const Shape& shape) {
  Case c(absl::StrCat("sum_of_", terms, "_", name));
  std::vector<int> operands;
  for (int i = 0; i < terms; ++i) operands.push_back(c.Input(absl::StrCat("x", i), shape));
  operands.push_back(c.Output("y", shape));
  c.Run(program::Sum{}, operands);
  return std::move(c).Done();
}

OpCase Sgd(const std::string& name, const Shape& shape, const program::SgdUpdate& op) {
  Case c(absl::StrCat("sgd_", name));
  const int scalars = c.Scalars(), w = c.Parameter("w", shape);
  const int g = c.Like("g", w, Role::kParameter), v = c.Like("v", w, Role::kParameter);
  c.Run(op, {scalars, g, v, w});
  return std::move(c).Done();
}

enum class GateIs { kAbsent, kOpen, kClosed };

// A gate and a factor of the rate, for the only member.
std::vector<int> AddGate(Case& c, GateIs gate) {
  if (gate == GateIs::kAbsent) return {};
  const Fill fill = gate == GateIs::kOpen ? Fill::kPositive : Fill::kZeros;
  return {c.Add({.name = "gate", .shape = {program::Gate::kCount}, .fill = fill, .dtype = DType::kF64}),
          c.Add({.name = "trust", .shape = {1}, .fill = Fill::kPositive, .dtype = DType::kF64})};
}
const char* SuffixOf(GateIs gate) { return gate == GateIs::kAbsent ? "" : gate == GateIs::kOpen ? "_open" : "_closed"; }

OpCase GatedSgd(const std::string& name, const Shape& shape, GateIs gate, const program::SgdUpdate& op) {
  Case c(absl::StrCat("sgd_", name, SuffixOf(gate)));
  std::vector<int> operands = {c.Scalars()};
  const int w = c.Parameter("w", shape);
  for (int of_gate : AddGate(c, gate)) operands.push_back(of_gate);
  operands.insert(operands.end(), {c.Like("g", w, Role::kParameter), c.Like("v", w, Role::kParameter), w});
  c.Run(op, operands);
  return std::move(c).Done();
}

OpCase AdamW(const std::string& name, const Shape& shape, GateIs gate, const program::AdamWUpdate& op) {
  Case c(absl::StrCat("adamw_", name, SuffixOf(gate)));
  std::vector<int> operands = {c.Scalars()};
  const int w = c.Parameter("w", shape);
  for (int of_gate : AddGate(c, gate)) operands.push_back(of_gate);
  operands.insert(operands.end(), {c.Like("g", w, Role::kParameter), c.Like("m", w, Role::kParameter)});
  operands.push_back(
      c.Add({.name = "v", .shape = shape, .role = Role::kParameter, .fill = Fill::kPositive, .layout_as = w}));
  operands.push_back(w);
  c.Run(op, operands);
  return Inexact(std::move(c).Done());
}

OpCase Average(const std::string& name, const Shape& shape, GateIs gate) {
  Case c(absl::StrCat("average_", name, SuffixOf(gate)));
  const int w = c.Parameter("w", shape);
  std::vector<int> operands = AddGate(c, gate);
  operands.resize(operands.empty() ? 0 : 1);  // no factor of the rate
  operands.insert(operands.end(), {w, c.Like("e", w, Role::kParameter)});
  c.Run(program::AverageUpdate{.decay = 0.75}, operands);
  return std::move(c).Done();
}

OpCase SquaredNorms(const std::string& name, const Shape& shape, bool of_weights, const program::SquaredNorms& op) {
  Case c(absl::StrCat("squared_norms_", name, of_weights ? "_of_two" : ""));
  const int w = c.Parameter("w", shape), g = c.Like("g", w, Role::kParameter);
  const int norms = c.Add({"norms", {1, 2}, Role::kOutput, Fill::kNumbers, DType::kF64});
  c.Run(op, of_weights ? std::vector{g, w, norms} : std::vector{g, norms});
  return std::move(c).Done();
}

OpCase Gate(const std::string& name, int64_t parameters, const program::UpdateGate& op) {
  Case c(absl::StrCat("update_gate_", name));
  const int norms = c.Add({.name = "norms", .shape = {parameters, 2}, .fill = Fill::kPositive, .dtype = DType::kF64});
  const int gate = c.Add({"gate", {program::Gate::kCount}, Role::kOutput, Fill::kNumbers, DType::kF64});
  const int trust = c.Add({"trust", {parameters}, Role::kOutput, Fill::kNumbers, DType::kF64});
  c.Run(op, {norms, gate, trust});
  OpCase done = Inexact(std::move(c).Done());
  done.tolerance = 1e-14;  // all of it is in double
  return done;
}

void AddUpdates(std::vector<OpCase>& cases) {
  const program::AdamW adam{.beta1 = 0.75, .beta2 = 0.5, .epsilon = 0.5};
  for (GateIs gate : {GateIs::kAbsent, GateIs::kOpen, GateIs::kClosed}) {
    cases.push_back(
        GatedSgd("with_factors", {33}, gate, {.momentum = 0.5, .weight_decay = 0.25, .rates = {0.5}, .decays = {2}}));
    cases.push_back(GatedSgd("of_filters", {31, 16, 3, 3}, gate, {.momentum = 0.5, .form = program::SgdForm::kNesterov}));
    cases.push_back(AdamW("vector", {33}, gate, {.adam = adam, .weight_decay = 0.25, .rates = {0.5}, .decays = {2}}));
    cases.push_back(AdamW("filters", {32, 16, 3, 3}, gate, {.adam = adam}));
    cases.push_back(Average("vector", {33}, gate));
    cases.push_back(Average("filters", {32, 16, 3, 3}, gate));
  }
  for (bool of_two : {false, true}) {
    cases.push_back(SquaredNorms("vector", {33}, of_two, {}));
    cases.push_back(SquaredNorms("filters", {32, 16, 3, 3}, of_two, {{1}}));
  }
  cases.push_back(SquaredNorms("not_counted", {33}, true, {{0}}));
  cases.push_back(SquaredNorms("large", {200003}, false, {}));
  cases.push_back(Gate("clip", 5, {.clip_norm = 2}));
  cases.push_back(
      Gate("lars", 5, {.trust = 0.5, .weight_decay = 0.3, .decays = {1, 0, 2, 1, 0}, .adapted = {1, 1, 0, 1, 0}}));
  cases.push_back(Gate("of_300", 300, {.clip_norm = 2, .trust = 0.5}));
}

void AddConvs(std::vector<OpCase>& cases) {
  const Epilogue bias{.bias = true}, bias_relu{.bias = true, .relu = true}, relu{.relu = true};
  const Epilogue sgd{.bias = true, .sgd = true}, summands{.summands = true};
  cases.push_back(Conv("1_to_1_of_1x1", {1, 1, 1, 1}, 1, Square(1)));
  cases.push_back(Conv("31_to_33", {2, 31, 7, 7}, 33, Square(3, 1, 1)));
  cases.push_back(Conv("32_to_32", {3, 32, 7, 5}, 32, Square(3, 1, 1), 1, bias));
  cases.push_back(Conv("33_to_31", {2, 33, 5, 7}, 31, Square(3, 1, 1), 1, bias_relu));
  cases.push_back(Conv("16_to_48", {2, 16, 9, 9}, 48, Square(3, 1, 1), 1, bias_relu));
  cases.push_back(Conv("31_to_16", {2, 31, 5, 5}, 16, Square(3, 1, 1)));
  cases.push_back(Conv("16_to_17", {2, 16, 5, 5}, 17, Square(3, 1, 1), 1, bias));
  cases.push_back(Conv("96_to_64_of_1x1", {2, 96, 5, 5}, 64, Square(1), 1, bias));
  cases.push_back(Conv("64_to_64_of_1x1_stride_2", {2, 64, 7, 7}, 64, Square(1, 2)));
  cases.push_back(Conv("1_to_20_lenet", {2, 1, 28, 28}, 20, Square(5), 1, bias));
  cases.push_back(Conv("20_to_50_lenet", {2, 20, 12, 12}, 50, Square(5), 1, bias));
  cases.push_back(Conv("3_to_96_alexnet", {2, 3, 35, 35}, 96, Square(11, 4), 1, bias_relu));
  cases.push_back(Conv("3_to_64_alexnet_pad", {2, 3, 31, 31}, 64, Square(11, 4, 2), 1, bias_relu));
  cases.push_back(Conv("summands_16_to_32", {2, 16, 7, 7}, 32, Square(3, 1, 1), 1, summands));
  cases.push_back(Conv("summands_5_to_7", {3, 5, 8, 6}, 7, Square(5, 2, 2), 1, summands));
  cases.push_back(Conv("summands_16_to_32_groups_2", {2, 16, 6, 6}, 32, Square(3, 1, 1), 2, summands));
  cases.push_back(Conv("96_to_32_groups_2", {2, 96, 7, 7}, 32, Square(5, 1, 2), 2, bias_relu));
  cases.push_back(Conv("48_to_96_groups_2", {1, 48, 6, 6}, 96, Square(3, 1, 1), 2));
  cases.push_back(Conv("64_to_64_groups_4", {2, 64, 5, 5}, 64, Square(3, 1, 1), 4, bias));
  cases.push_back(Conv("32_to_64_groups_4", {2, 32, 5, 5}, 64, Square(3, 1, 1), 4, bias_relu));
  cases.push_back(Conv("6_to_10_groups_2", {3, 6, 7, 7}, 10, Square(3, 1, 1), 2, bias));
  cases.push_back(Conv("62_to_66_groups_2", {1, 62, 5, 5}, 66, Square(3, 1, 1), 2));
  cases.push_back(Conv("16_to_16_groups_16", {2, 16, 6, 6}, 16, Square(3, 1, 1), 16, bias));
  cases.push_back(Conv("4_to_8_groups_4", {2, 4, 6, 6}, 8, Square(3, 1, 1), 4));
  cases.push_back(Conv("16_to_32_stride_2", {2, 16, 13, 13}, 32, Square(3, 2, 1)));
  cases.push_back(Conv("5_to_7_rectangular", {2, 5, 11, 13}, 7, {3, 5, 2, 1, 1, 2, 1, 2}, 1, bias));
  cases.push_back(Conv("32_to_16_rectangular", {2, 32, 11, 13}, 16, {1, 7, 1, 3, 0, 3, 0, 3}, 1, relu));
  cases.push_back(Conv("window_beyond_image", {2, 16, 2, 3}, 16, Square(5, 1, 2)));
  cases.push_back(Conv("3x3_over_1x1", {3, 7, 1, 1}, 5, Square(3, 1, 1)));
  cases.push_back(Conv("pixels_between_windows", {2, 16, 8, 8}, 32, Square(2, 3)));
  cases.push_back(Conv("pixels_after_the_last_window", {2, 3, 8, 8}, 4, Square(3, 2)));
  cases.push_back(Conv("3_to_16_stride_2_pad_2", {2, 3, 13, 13}, 16, Square(5, 2, 2), 1, bias_relu));
  cases.push_back(Conv("48_to_96", {2, 48, 5, 5}, 96, Square(3, 1, 1), 1, bias));
  cases.push_back(Conv("24_to_24_groups_4", {2, 24, 6, 5}, 24, {3, 1, 1, 1}, 4, bias_relu));
  cases.push_back(Conv("7_to_11_even_window", {5, 7, 8, 8}, 11, {2, 3, 1, 1, 1, 1, 1, 1}, 1, bias));
  cases.push_back(Conv("16_to_32_four_pads", {2, 16, 7, 9}, 32, {3, 3, 2, 2, 0, 1, 1, 2}, 1, bias_relu));
  cases.push_back(Conv("5_to_7_four_pads", {2, 5, 8, 6}, 7, {3, 5, 1, 2, 2, 0, 1, 3}, 1, bias));
  cases.push_back(Conv("32_to_32_groups_2_four_pads", {2, 32, 5, 6}, 32, {3, 2, 1, 1, 0, 1, 2, 0}, 2, bias));
  cases.push_back(Conv("3_to_16_stride_4_four_pads", {2, 3, 18, 21}, 16, {5, 5, 4, 4, 1, 2, 3, 0}, 1, bias_relu));
  cases.push_back(Conv("16_to_32_narrower_than_the_stride", {2, 16, 1, 1}, 32, Square(3, 2, 1)));
  cases.push_back(Conv("16_to_32_narrower_than_a_stride_of_3", {2, 16, 2, 2}, 32, Square(3, 3, 1)));
  cases.push_back(Conv("16_to_32_narrower_than_a_stride_of_4", {2, 16, 3, 3}, 32, Square(3, 4, 1)));
  cases.push_back(Conv("1_to_16_padded_by_17", {1, 1, 60, 60}, 16, {36, 20, 4, 4, 17, 17, 17, 17}));
  cases.push_back(Conv("64_to_8_groups_2_of_1x1", {1, 64, 4, 4}, 8, Square(1), 2, bias));
  cases.push_back(Conv("1_to_6_by_rows", {3, 1, 28, 28}, 6, Square(5, 1, 2), 1, bias_relu));
  cases.push_back(Conv("6_to_16_by_rows", {3, 6, 14, 14}, 16, Square(5), 1, bias_relu));
  cases.push_back(Conv("16_to_10_by_rows", {2, 16, 9, 17}, 10, Square(3, 1, 1), 1, bias));
  cases.push_back(Conv("12_to_32_by_rows", {5, 12, 8, 32}, 32, Square(3, 1, 1)));
  cases.push_back(Conv("30_to_9_by_rows_of_33", {2, 30, 8, 33}, 9, Square(3, 1, 1), 1, sgd));
  cases.push_back(Conv("3_to_1_by_rows_window_1x5", {2, 3, 3, 20}, 1, {1, 5, 1, 1, 0, 4, 0, 0}, 1, bias));
  cases.push_back(Conv("4_to_5_by_rows_four_pads", {2, 4, 11, 13}, 5, {4, 3, 1, 1, 3, 2, 0, 1}, 1, bias_relu));
  cases.push_back(Conv("24_to_40_by_rows_groups_4", {3, 24, 9, 10}, 40, Square(3, 1, 1), 4, bias_relu));
  cases.push_back(Conv("summands_5_to_7_by_rows", {3, 5, 8, 16}, 7, Square(3, 1, 1), 1, summands));
  cases.push_back(Conv("as_product", {5, 16, 5, 5}, 120, Square(5), 1, bias_relu));
  cases.push_back(Conv("as_product_of_rows", {2, 7, 3, 5}, 32, {3, 5, 1, 1}, 1, sgd));
  cases.push_back(Conv("sgd_32_to_48", {2, 32, 5, 5}, 48, Square(3, 1, 1), 1, sgd));
  cases.push_back(Conv("sgd_32_to_32_groups_2", {2, 32, 5, 5}, 32, Square(3, 1, 1), 2, sgd));
  cases.push_back(Conv("sgd_3_to_33", {2, 3, 9, 9}, 33, Square(3, 2, 1), 1, sgd));
}

void AddDense(std::vector<OpCase>& cases) {
  const Epilogue bias{.bias = true}, bias_relu{.bias = true, .relu = true}, sgd{.bias = true, .sgd = true};
  const Epilogue summands{.summands = true};
  cases.push_back(FullyConnected(5, 33, 31, summands));
  cases.push_back(FullyConnected(8, 64, 48, summands));
  cases.push_back(FullyConnected(1, 1, 1));
  cases.push_back(FullyConnected(2, 31, 33));
  cases.push_back(FullyConnected(3, 32, 32, bias));
  cases.push_back(FullyConnected(5, 33, 31, bias_relu));
  cases.push_back(FullyConnected(16, 64, 48, bias));
  cases.push_back(FullyConnected(7, 96, 16, bias_relu));
  cases.push_back(FullyConnected(4, 400, 10, bias));
  cases.push_back(FullyConnected(1, 256, 64, bias_relu));
  cases.push_back(FullyConnected(8, 17, 101));
  cases.push_back(FullyConnected(8, 128, 64, bias_relu));
  cases.push_back(FullyConnected(33, 257, 10, bias));
  cases.push_back(FullyConnected(6, 64, 96, sgd));
  cases.push_back(FullyConnected(3, 37, 13, sgd));
  cases.push_back(Bias("31_channels", {2, 31, 5, 3}));
  cases.push_back(Bias("32_channels", {3, 32, 4, 4}));
  cases.push_back(Bias("1_channel", {1, 1, 1, 1}));
  cases.push_back(Bias("48_channels_of_1x1", {2, 48, 1, 1}));
  cases.push_back(Bias("12_channels_of_many", {16, 12, 32, 32}));
  cases.push_back(Bias("48_channels_of_many", {8, 48, 32, 32}));
  cases.push_back(Bias("matrix_of_33", {5, 33}));
  cases.push_back(Bias("matrix_of_64", {4, 64}));
  cases.push_back(Softmax(1, 1));
  cases.push_back(Softmax(1, 10));
  cases.push_back(Softmax(7, 2));
  cases.push_back(Softmax(33, 31));
  cases.push_back(Softmax(5, 1000));
  cases.push_back(Softmax(33, 31, 0.3, 0.1));
}

void AddPools(std::vector<OpCase>& cases) {
  for (int64_t channels : {1, 3, 16, 31, 32, 33, 48, 64}) {
    cases.push_back(MaxPool(absl::StrCat(channels, "_channels_2x2"), {2, channels, 8, 6}, Square(2, 2)));
    cases.push_back(MaxPool(absl::StrCat(channels, "_channels_3x3"), {2, channels, 7, 11}, Square(3, 2)));
  }
  for (int64_t channels : {31, 32}) {
    const std::string name = absl::StrCat(channels, "_channels_");
    cases.push_back(MaxPool(name + "pad", {2, channels, 7, 7}, Square(3, 2, 1)));
    cases.push_back(MaxPool(name + "rectangular", {2, channels, 7, 9}, {3, 2, 2, 1, 1, 0, 1, 0}));
    cases.push_back(MaxPool(name + "four_pads", {2, channels, 7, 8}, {3, 4, 2, 2, 0, 1, 2, 3}));
    cases.push_back(MaxPool(name + "rounded_up", {2, channels, 8, 6}, {3, 3, 2, 2, 0, 0, 1, 1}));
    cases.push_back(MaxPool(name + "rounded_up_pad", {2, channels, 6, 8}, {3, 3, 2, 2, 1, 1, 2, 2}));
    cases.push_back(MaxPool(name + "after_the_last_window", {1, channels, 8, 8}, Square(3, 2)));
    cases.push_back(MaxPool(name + "between_windows", {2, channels, 8, 8}, Square(2, 3)));
    cases.push_back(MaxPool(name + "global", {3, channels, 7, 7}, Square(7)));
    cases.push_back(MaxPool(name + "of_long_rows", {2, channels, 4, 600}, {2, 3, 2, 2, 0, 1, 0, 0}));
    cases.push_back(MaxPool(name + "stride_1_pad", {1, channels, 5, 37}, Square(3, 1, 1)));
    cases.push_back(MaxPool(name + "15x15", {1, channels, 16, 17}, Square(15, 1, 1)));
    cases.push_back(MaxPool(name + "16x16", {1, channels, 16, 17}, Square(16, 1, 1)));  // places that fill no byte
    cases.push_back(MaxPoolWithoutArgmax({2, channels, 7, 7}, Square(3, 2)));
    for (bool count_pad : {true, false}) {
      cases.push_back(AvgPool(name + "2x2", {2, channels, 8, 6}, Square(2, 2), count_pad));
      cases.push_back(AvgPool(name + "2x2_pad", {2, channels, 7, 5}, Square(2, 2, 1), count_pad));
      cases.push_back(AvgPool(name + "3x3", {2, channels, 7, 11}, Square(3, 2), count_pad));
      cases.push_back(AvgPool(name + "3x3_pad", {2, channels, 7, 7}, Square(3, 2, 1), count_pad));
      cases.push_back(AvgPool(name + "rectangular", {2, channels, 7, 9}, {3, 2, 2, 1, 1, 0, 1, 0}, count_pad));
      cases.push_back(AvgPool(name + "four_pads", {2, channels, 7, 8}, {3, 4, 2, 2, 0, 1, 2, 3}, count_pad));
      cases.push_back(AvgPool(name + "less_pad_behind", {2, channels, 7, 8}, {4, 2, 1, 2, 2, 1, 0, 0}, count_pad));
      cases.push_back(AvgPool(name + "rounded_up", {2, channels, 8, 6}, {3, 3, 2, 2, 0, 0, 1, 1}, count_pad));
      cases.push_back(AvgPool(name + "rounded_up_pad", {2, channels, 6, 8}, {3, 3, 2, 2, 1, 1, 2, 2}, count_pad));
      cases.push_back(AvgPool(name + "between_windows", {2, channels, 8, 8}, Square(2, 3), count_pad));
    }
    cases.push_back(AvgPool(name + "global", {3, channels, 5, 7}, {5, 7, 1, 1}, true));
  }
  cases.push_back(AvgPool("1_channel", {1, 1, 1, 1}, Square(1), true));
}

void AddElementwise(std::vector<OpCase>& cases) {
  for (program::Activation activation : program::kActivations) {
    cases.push_back(Activation(activation, "of_1", {1, 1, 1, 1}));
    cases.push_back(Activation(activation, "31_channels", {2, 31, 5, 7}));
    cases.push_back(Activation(activation, "48_channels", {3, 48, 4, 4}));
    cases.push_back(Activation(activation, "matrix", {5, 33}));
  }

  const program::LrnForward strong{.size = 5, .alpha = 1, .beta = 0.75, .k = 1};
  cases.push_back(Lrn("1_channel", {1, 1, 1, 1}, strong));
  for (int64_t channels : {31, 32, 33, 96}) cases.push_back(Lrn(absl::StrCat(channels), {2, channels, 5, 7}, strong));
  cases.push_back(Lrn("paper", {2, 96, 3, 3}, {.size = 5, .alpha = 1e-4, .beta = 0.75, .k = 2}));
  cases.push_back(Lrn("groups_2", {2, 32, 5, 5}, {.size = 5, .groups = 2, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("groups_4", {2, 64, 3, 3}, {.size = 3, .groups = 4, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("groups_3_of_4", {2, 12, 4, 5}, {.size = 5, .groups = 3, .alpha = 0.3, .k = 2}));
  cases.push_back(Lrn("groups_2_of_5", {3, 10, 3, 5}, {.size = 3, .groups = 2, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("size_beyond_channels", {2, 3, 3, 3}, {.size = 9, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("even_size", {2, 16, 3, 3}, {.size = 4, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("size_1", {2, 16, 3, 3}, {.size = 1, .alpha = 1, .k = 1}));
  cases.push_back(Lrn("beta_half", {2, 16, 3, 3}, {.size = 3, .alpha = 0.5, .beta = 0.5, .k = 2}));
  cases.push_back(Lrn("beta_1", {2, 7, 3, 3}, {.size = 3, .alpha = 0.5, .beta = 1, .k = 2}));

  cases.push_back(Dropout("half", {2, 33, 5, 5}, {.rate = 0.5, .global_shape = {2, 33, 5, 5}, .offset = {0, 0, 0, 0}}));
  cases.push_back(Dropout("box_of_images", {2, 32, 3, 5},
                          {.rate = 0.5, .stream = 3, .global_shape = {7, 70, 3, 5}, .offset = {3, 33, 0, 0}}));
  cases.push_back(
      Dropout("box_of_matrix", {5, 31}, {.rate = 0.75, .stream = 1, .global_shape = {9, 67}, .offset = {2, 11}}));
  cases.push_back(
      Dropout("box_of_long_rows", {3, 600}, {.rate = 0.5, .stream = 1, .global_shape = {5, 1001}, .offset = {1, 3}}));
  cases.push_back(Dropout("rate_0", {3, 16, 2, 2}, {.rate = 0, .global_shape = {3, 16, 2, 2}, .offset = {0, 0, 0, 0}}));
  cases.push_back(Dropout("rate_0_3", {3, 64}, {.rate = 0.3, .global_shape = {3, 64}, .offset = {0, 0}}, /*exact=*/false));

  cases.push_back(CountLabels({33}));
  cases.push_back(CountLabels({7, 1, 5}));
  cases.push_back(CheckFinite("vector", {33}));
  cases.push_back(CheckFinite("filters", {32, 16, 3, 3}));
  cases.push_back(CheckFinite("large", {200003}));
  cases.push_back(CheckFiniteOfSeveral());
  cases.push_back(Normalise("colours", {3, 6, 5, 3}, {{0.5, 0.25, 2}, {-3, 0, 1.5}}));
  cases.push_back(Normalise("grey", {2, 7, 9, 1}, {{0.125}, {-16}}));
  cases.push_back(Copy("images", {2, 32, 3, 5}, {2, 32, 3, 5}));
  cases.push_back(Copy("flatten_32", {3, 32, 3, 5}, {3, 480}));
  cases.push_back(Copy("flatten_31", {3, 31, 3, 5}, {3, 465}));
  cases.push_back(Copy("unflatten_48", {2, 192}, {2, 48, 2, 2}));
  for (int terms : {2, 3, 5, 17, 33}) cases.push_back(Sum(terms, "31_channels", {2, 31, 3, 5}));
  for (int terms : {2, 3, 5, 17, 33}) cases.push_back(Sum(terms, "32_channels", {2, 32, 3, 5}));
  cases.push_back(Sum(2, "matrices", {5, 33}));
  cases.push_back(Sgd("of_1", {1}, {.momentum = 0.5, .weight_decay = 0.25}));
  cases.push_back(Sgd("vector", {33}, {.momentum = 0.5, .weight_decay = 0.0625}));
  cases.push_back(Sgd("vector_of_1000", {1000}, {.momentum = 0.5, .weight_decay = 0.25}));
  cases.push_back(Sgd("filters", {31, 16, 3, 3}, {.momentum = 0.5, .weight_decay = 0}));
  using program::SgdForm;
  cases.push_back(Sgd("pytorch", {33}, {.momentum = 0.5, .weight_decay = 0.0625, .form = SgdForm::kPyTorch}));
  cases.push_back(Sgd("nesterov", {31, 16, 3, 3}, {.momentum = 0.5, .weight_decay = 0.0625, .form = SgdForm::kNesterov}));
  cases.push_back(Sgd("without_momentum", {48, 64}, {.momentum = 0, .weight_decay = 0.0625}));
}

}  // namespace

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddConvs(cases);
  AddDense(cases);
  AddPools(cases);
  AddBatchNorms(cases);
  AddLayerNorms(cases);
  AddElementwise(cases);
  AddUpdates(cases);
  return cases;
}

}  // namespace colonnade::conformance
