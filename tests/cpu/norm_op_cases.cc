// The cases of batch and layer normalisation.
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "op_case_builder.h"

namespace colonnade::conformance {
namespace {

// What a normalisation does beside its own, in the ops of its own.
enum class Fused {
  kRelu,      // forward
  kRecalled,  // and the gradient of this ReLU, worked out anew
  kAddend,    // a sum before the ReLU; and the gradient of the ReLU, by y
  kMore,      // and a sum of gradients before that
};

struct Statistics {
  int64_t groups = 1;
  bool totals = false;  // and what follows from them: running averages, and the sums that evaluation makes of these
  bool relu = false;
  bool check = true;  // gradients
  Fill fill = Fill::kNumbers;
  Fused fused = Fused::kRelu;
};

OpCase FusedBatchNorm(const std::string& name, const Shape& shape, const Statistics& s) {
  Case c(absl::StrCat("batch_norm_", name));
  const int64_t channels = shape[1], count = program::ElementCount(shape) / channels / s.groups;
  const int x = c.Input("x", shape), y = c.Output("y", shape), dy = c.Input("dy", shape), dx = c.Output("dx", shape);
  const int w = c.Parameter("w", {channels}), b = c.Parameter("b", {channels});
  const int dw = c.Like("dw", w, Role::kOutput), db = c.Like("db", b, Role::kOutput);
  const int sums = c.Sums("sums", s.groups, channels), dsums = c.Sums("dsums", s.groups, channels);
  constexpr double kEpsilon = 0.125;
  GradientCheck check{.y = y, .dy = dy, .forward_steps = 2, .gradients = {{x, dx}, {w, dw}, {b, db}}};
  c.Run(program::BatchNormSums{}, {x, sums});
  if (s.fused == Fused::kRecalled) {
    c.Run(program::BatchNormForward{count, kEpsilon, true}, {x, sums, w, b, y});
    c.Run(program::BatchNormBackwardSums{count, kEpsilon}, {x, dy, sums, w, b, dsums, dw, db});
    c.Run(program::BatchNormBackward{count, kEpsilon}, {x, dy, sums, dsums, w, b, dx});
  } else {
    const int addend = c.Input("addend", shape), dz = c.Output("dz", shape);
    const int more = s.fused == Fused::kMore ? c.Input("more", shape) : -1;
    c.Run(program::BatchNormForward{count, kEpsilon, true}, {x, sums, w, b, addend, y});
    c.Run(program::BatchNormMaskedSums{count, kEpsilon}, Present({x, y, dy, sums, more, dz, dsums, dw, db}));
    c.Run(program::BatchNormBackward{count, kEpsilon}, {x, dz, sums, dsums, w, dx});
    check.gradients.emplace_back(addend, dz);
  }
  // Finite differences are of Σ y·dy, without what is more.
  const bool checks = s.check && s.fused != Fused::kMore;
  return Inexact(checks ? std::move(c).Done(check) : std::move(c).Done());
}

// The gradient of a ReLU in each way: dz, dsums and dx of a pass of its own, dsums2 and dx2 recalled, dz3 and dsums3 masked.
OpCase BatchNormInEachWay(const std::string& name, const Shape& shape) {
  Case c(absl::StrCat("batch_norm_in_each_way_", name));
  const int64_t channels = shape[1], count = program::ElementCount(shape) / channels;
  const int x = c.Input("x", shape), y = c.Output("y", shape), dy = c.Input("dy", shape);
  const int w = c.Parameter("w", {channels}), b = c.Parameter("b", {channels}), sums = c.Sums("sums", 1, channels);
  const auto outputs = [&](const std::string& number) {
    const int dsums = c.Sums("dsums" + number, 1, channels);
    return std::vector<int>{dsums, c.Like("dw" + number, w, Role::kOutput), c.Like("db" + number, b, Role::kOutput)};
  };
  const auto with = [](std::vector<int> operands, const std::vector<int>& more) {
    operands.insert(operands.end(), more.begin(), more.end());
    return operands;
  };
  constexpr double kEpsilon = 0.125;
  c.Run(program::BatchNormSums{}, {x, sums});
  c.Run(program::BatchNormForward{count, kEpsilon, true}, {x, sums, w, b, y});
  const std::vector<int> apart = outputs(""), recalled = outputs("2"), masked = outputs("3");
  const int dz = c.Output("dz", shape), dz3 = c.Output("dz3", shape);
  c.Run(program::ActivationBackward{program::Activation::kRelu}, {y, dy, dz});
  c.Run(program::BatchNormBackwardSums{count, kEpsilon}, with({x, dz, sums}, apart));
  c.Run(program::BatchNormBackward{count, kEpsilon}, {x, dz, sums, apart[0], w, c.Output("dx", shape)});
  c.Run(program::BatchNormBackwardSums{count, kEpsilon}, with({x, dy, sums, w, b}, recalled));
  c.Run(program::BatchNormBackward{count, kEpsilon}, {x, dy, sums, recalled[0], w, b, c.Output("dx2", shape)});
  c.Run(program::BatchNormMaskedSums{count, kEpsilon}, with({x, y, dy, sums, dz3}, masked));
  return Inexact(std::move(c).Done());
}

OpCase BatchNorm(const std::string& name, const Shape& shape, const Statistics& s = {}) {
  Case c(absl::StrCat("batch_norm_", name));
  const int64_t channels = shape[1], count = program::ElementCount(shape) / channels / s.groups;
  const int x = c.Add({.name = "x", .shape = shape, .fill = s.fill}), y = c.Output("y", shape), dy = c.Input("dy", shape);
  const int dx = c.Output("dx", shape), dz = s.relu ? c.Output("dz", shape) : dy;
  const int w = c.Parameter("w", {channels}), b = c.Parameter("b", {channels});
  const int dw = c.Like("dw", w, Role::kOutput), db = c.Like("db", b, Role::kOutput);
  const int sums = c.Sums("sums", s.groups, channels), dsums = c.Sums("dsums", s.groups, channels);
  const int totals = s.totals ? c.Sums("totals", 1, channels) : -1;
  constexpr double kEpsilon = 0.125;
  c.Run(program::BatchNormSums{}, Present({x, sums, totals}));
  c.Run(program::BatchNormForward{count, kEpsilon, s.relu}, {x, sums, w, b, y});
  if (s.relu) c.Run(program::ActivationBackward{program::Activation::kRelu}, {y, dy, dz});
  c.Run(program::BatchNormBackwardSums{count, kEpsilon}, {x, dz, sums, dsums, dw, db});
  c.Run(program::BatchNormBackward{count, kEpsilon}, {x, dz, sums, dsums, w, dx});
  if (s.totals) {
    const int mean = c.Parameter("mean", {channels}), var = c.Parameter("var", {channels});
    c.Run(program::BatchNormTrack{count * s.groups, 0.25}, {totals, mean, var});
    c.Run(program::BatchNormRecall{}, {mean, var, c.Sums("recalled", 1, channels)});
  }
  if (!s.check) return Inexact(std::move(c).Done());
  return Inexact(std::move(c).Done({.y = y, .dy = dy, .forward_steps = 2, .gradients = {{x, dx}, {w, dw}, {b, db}}}));
}

OpCase BatchNormSums(const std::string& name, const Shape& shape, int64_t groups) {
  Case c(absl::StrCat("batch_norm_sums_", name));
  const int x = c.Input("x", shape);
  c.Run(program::BatchNormSums{}, {x, c.Sums("sums", groups, shape[1]), c.Sums("totals", 1, shape[1])});
  return std::move(c).Done();
}

// What becomes of the weights alone; and then what products make of them, in whatever layout they have there.
struct Folded {
  int weights, folded, folded_bias;
  Folded(Case& c, const Shape& shape, bool has_bias, Role role) {
    const Shape channels = {shape[0]};
    weights = c.Parameter("weights", shape);
    const int mean = c.Parameter("mean", channels), var = c.Parameter("var", channels), w = c.Parameter("w", channels),
              b = c.Parameter("b", channels), bias = has_bias ? c.Parameter("bias", channels) : -1;
    folded = c.Add({.name = "folded", .shape = shape, .role = role});
    folded_bias = c.Add({.name = "folded_bias", .shape = channels, .role = role});
    c.Run(program::BatchNormFold{.epsilon = 0.125}, Present({weights, mean, var, w, b, bias, folded, folded_bias}));
  }
};

OpCase FoldedWeights(const std::string& name, const Shape& shape, bool has_bias) {
  Case c(absl::StrCat("batch_norm_fold_", name, has_bias ? "_bias" : ""));
  const Folded of(c, shape, has_bias, Role::kOutput);
  return Inexact(std::move(c).Done());
}

OpCase FoldedConv(const std::string& name, const Shape& shape, int64_t outputs, int64_t groups, bool has_bias) {
  Case c(absl::StrCat("batch_norm_folded_conv_", name));
  const Window window = Square(3, 1, 1);
  const int x = c.Input("x", shape), y = c.Output("y", WindowedShape(shape, outputs, window));
  const Folded of(c, {outputs, shape[1] / groups, 3, 3}, has_bias, Role::kSaved);
  c.Run(program::ConvForward{.window = window, .groups = groups, .bias = true, .relu = true},
        {x, of.folded, of.folded_bias, y});
  return Inexact(std::move(c).Done());
}

OpCase FoldedProduct(int64_t n, int64_t in, int64_t out) {
  Case c(absl::StrCat("batch_norm_folded_product_", n, "x", in, "_to_", out));
  const int x = c.Input("x", {n, in}), y = c.Output("y", {n, out});
  const Folded of(c, {out, in}, true, Role::kSaved);
  c.Run(program::FullyConnectedForward{.bias = true}, {x, of.folded, of.folded_bias, y});
  return Inexact(std::move(c).Done());
}

// Every result is a handful of roundings to 2⁻²⁴ from exact, wherever the mean is. Gradients of many elements are not
// compared with finite differences, which take long; nor those of a function that is far from zero, whose differences
// cancel.
OpCase LayerNorm(const std::string& name, const Shape& shape, Fill fill = Fill::kNumbers) {
  Case c(absl::StrCat("layer_norm_", name));
  Shape of_positions = shape;
  of_positions[1] = 3;
  const int x = c.Add({.name = "x", .shape = shape, .fill = fill}), y = c.Output("y", shape), dy = c.Input("dy", shape);
  const int w = c.Parameter("w", {shape[1]}), b = c.Parameter("b", {shape[1]}), dx = c.Output("dx", shape);
  const int dw = c.Like("dw", w, Role::kOutput), db = c.Like("db", b, Role::kOutput);
  const int moments = c.Add({.name = "moments", .shape = of_positions, .role = Role::kSaved});
  c.Run(program::LayerNormForward{.epsilon = 0.125}, {x, w, b, y, moments});
  c.Run(program::LayerNormBackwardWeights{}, {x, dy, moments, dw, db});
  c.Run(program::LayerNormBackwardData{}, {x, dy, moments, w, dx});
  const bool check = fill == Fill::kNumbers && program::ElementCount(shape) < 10000;
  OpCase done =
      check ? std::move(c).Done({.y = y, .dy = dy, .gradients = {{x, dx}, {w, dw}, {b, db}}}) : std::move(c).Done();
  done.tolerance = 1e-6;
  return Inexact(std::move(done));
}

}  // namespace

void AddBatchNorms(std::vector<OpCase>& cases) {
  for (int64_t channels : {1, 3, 16, 17, 31, 32, 64}) {
    const std::string name = absl::StrCat(channels, "_channels");
    cases.push_back(BatchNorm(name, {4, channels, 3, 5}));
    cases.push_back(BatchNorm(name + "_groups_2", {4, channels, 5, 7}, {.groups = 2, .totals = true, .relu = true}));
    cases.push_back(BatchNorm(name + "_matrix", {12, channels}, {.groups = 2, .totals = true}));
    cases.push_back(BatchNormSums(name, {4, channels, 5, 5}, 2));
    cases.push_back(FusedBatchNorm(name + "_recalled", {4, channels, 5, 7}, {.groups = 2, .fused = Fused::kRecalled}));
    cases.push_back(FusedBatchNorm(name + "_addend", {4, channels, 3, 5}, {.fused = Fused::kAddend}));
    cases.push_back(FusedBatchNorm(name + "_more", {12, channels}, {.groups = 2, .fused = Fused::kMore}));
    cases.push_back(BatchNormInEachWay(name, {4, channels, 5, 7}));
  }
  cases.push_back(BatchNorm("of_1", {1, 1, 1, 1}, {.totals = true}));
  cases.push_back(BatchNorm("groups_of_1_sample", {3, 32, 4, 4}, {.groups = 3}));
  // More than one piece of each block of channels, whose ends are inside an image.
  const Statistics many{.totals = true, .relu = true, .check = false}, two{.groups = 2, .totals = true, .check = false};
  cases.push_back(BatchNorm("32_channels_of_many", {3, 32, 30, 30}, many));
  cases.push_back(BatchNorm("3_channels_of_many", {17, 3, 45, 45}, many));
  cases.push_back(BatchNorm("176_channels_of_few", {7, 176, 7, 7}, many));
  for (const auto& [name, fused] :
       {std::pair("recalled", Fused::kRecalled), {"addend", Fused::kAddend}, {"more", Fused::kMore}}) {
    const Statistics s{.check = false, .fused = fused};
    cases.push_back(FusedBatchNorm(absl::StrCat("32_channels_of_many_", name), {3, 32, 30, 30}, s));
    cases.push_back(FusedBatchNorm(absl::StrCat("3_channels_of_many_", name), {17, 3, 45, 45}, s));
  }
  cases.push_back(BatchNorm("matrix_of_many", {4100, 17}, two));
  // Sums in f32 would keep no digit of these variances.
  const Statistics far{.totals = true, .check = false, .fill = Fill::kFarFromZero};
  for (int64_t c : {3, 16}) cases.push_back(BatchNorm(absl::StrCat("far_from_zero_", c), {8, c, 24, 24}, far));
  for (bool bias : {false, true}) {
    cases.push_back(FoldedWeights("filters", {33, 5, 3, 3}, bias));
    cases.push_back(FoldedWeights("filters_in_blocks", {32, 16, 3, 3}, bias));
    cases.push_back(FoldedWeights("filters_of_1x1", {48, 64, 1, 1}, bias));
    cases.push_back(FoldedWeights("filters_of_one", {17, 1, 1, 1}, bias));
    cases.push_back(FoldedWeights("matrix", {31, 32}, bias));
    cases.push_back(FoldedConv(absl::StrCat("32_to_48", bias ? "_bias" : ""), {2, 32, 7, 5}, 48, 1, bias));
  }
  cases.push_back(FoldedConv("3_to_17", {2, 3, 9, 9}, 17, 1, false));
  cases.push_back(FoldedConv("32_to_64_groups_4", {2, 32, 5, 5}, 64, 4, true));
  cases.push_back(FoldedProduct(6, 64, 96));
  cases.push_back(FoldedProduct(3, 37, 13));
}

void AddLayerNorms(std::vector<OpCase>& cases) {
  for (int64_t channels : {2, 3, 16, 17, 31, 32, 64}) {
    const std::string name = absl::StrCat(channels, "_channels");
    cases.push_back(LayerNorm(name, {3, channels, 3, 5}));
    cases.push_back(LayerNorm(name + "_of_many", {2, channels, 5, 7}));
    cases.push_back(LayerNorm(name + "_matrix", {6, channels}));
  }
  cases.push_back(LayerNorm("of_1", {1, 1, 1, 1}));
  cases.push_back(LayerNorm("32_channels_of_1x1", {2, 32, 1, 1}));
  cases.push_back(LayerNorm("rank_3", {2, 24, 5}));
  // More than one piece of the tiles, and more channels than a block has threads.
  cases.push_back(LayerNorm("96_channels_of_pieces", {4, 96, 14, 14}));
  cases.push_back(LayerNorm("33_channels_of_pieces", {5, 33, 21, 21}));
  cases.push_back(LayerNorm("matrix_of_pieces", {300, 200}));
  cases.push_back(LayerNorm("1100_channels", {2, 1100, 2, 2}));
  cases.push_back(LayerNorm("1101_channels", {2, 1101, 2, 2}));
  // A mean rounded to f32 would be off by up to 3e-5 standard deviations.
  for (int64_t c : {16, 33}) cases.push_back(LayerNorm(absl::StrCat("far_from_zero_", c), {4, c, 6, 6}, Fill::kFarFromZero));
  cases.push_back(LayerNorm("far_from_zero_matrix", {40, 50}, Fill::kFarFromZero));
}

}  // namespace colonnade::conformance
