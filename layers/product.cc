#include "layers/product.h"

#include <utility>

#include "base/status_macros.h"
#include "layers/common_shardings.h"

namespace colonnade::layers {
namespace {

using program::Pass;

const Slot kSum = Inner(0);

Stage Multiply(const Product& product, bool bias, Slot to) {
  Stage stage{
      .pass = Pass::kForward, .reads = {X(), kWeight}, .writes = {to}, .accepts = {.epilogue = true, .folded = to == Y()}};
  if (bias) stage.reads.push_back(kBias);
  stage.emit = [op = product.forward, to](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &x = s[X()], &w = s[kWeight], &y = s[to];
    const Operand* bias = s.has(kBias) ? &s[kBias] : s.fused(Fused::kBias);
    EmittedOp multiply{.op = op(x.shape, w.shape, bias != nullptr, s.epilogue == program::Activation::kRelu),
                       .uses = {Read(x), Read(w)},
                       .flops = ProductFlops(w.shape, y.shape)};
    if (bias != nullptr) multiply.uses.push_back(Read(*bias));
    multiply.uses.push_back(Write(y));
    return {std::move(multiply)};
  };
  return stage;
}

Stage MultiplyBackwardToWeights(const Product& product, bool bias) {
  Stage stage{.pass = Pass::kBackward, .reads = {X(), D(Y())}, .writes = {D(kWeight)}};
  if (bias) stage.writes.push_back(D(kBias));
  stage.emit = [op = product.backward_weights, bias](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &x = s[X()], &dy = s[D(Y())], &dw = s[D(kWeight)];
    EmittedOp multiply{.op = op(x.shape, dw.shape, bias),
                       .uses = {Read(x), Read(dy), Write(dw)},
                       .flops = ProductFlops(dw.shape, dy.shape)};
    if (bias) multiply.uses.push_back(Write(s[D(kBias)]));
    return {std::move(multiply)};
  };
  return stage;
}

Stage MultiplyBackwardToInput(const Product& product) {
  Stage stage{.pass = Pass::kBackward, .reads = {kWeight, D(Y())}, .writes = {D(X())}};
  stage.emit = [op = product.backward_data](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &w = s[kWeight], &dy = s[D(Y())], &dx = s[D(X())];
    return {{.op = op(dx.shape, w.shape), .uses = {Read(dy), Read(w), Write(dx)}, .flops = ProductFlops(w.shape, dy.shape)}};
  };
  return stage;
}

Stage AddBias() {
  Stage stage{.pass = Pass::kForward, .reads = {kSum, kBias}, .writes = {Y()}};
  stage.emit = [](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &sum = s[kSum], &y = s[Y()];
    return {{.op = program::BiasForward{},
             .uses = {Read(sum), Read(s[kBias]), Write(y)},
             .flops = program::ElementCount(y.shape)}};
  };
  return stage;
}

Stage AddBiasBackward() {
  Stage stage{.pass = Pass::kBackward, .reads = {D(Y())}, .writes = {D(kBias)}};
  stage.emit = [](const StageShard& s) -> std::vector<EmittedOp> {
    const Operand &dy = s[D(Y())], &db = s[D(kBias)];
    return {{.op = program::BiasBackward{}, .uses = {Read(dy), Write(db)}, .flops = program::ElementCount(dy.shape)}};
  };
  return stage;
}

}  // namespace

absl::Status CheckBias(bool has_bias, const program::Initializer& initial) {
  if (has_bias || initial == program::Initializer{}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "expected a bias that bias_init is for, found bias false; leave bias_init out, or set bias");
}

int64_t ProductFlops(const program::Shape& w, const program::Shape& y) {
  return 2 * program::ElementCount(y) * (program::ElementCount(w) / w[0]);
}

LayerStages ProductStages(const Product& product, const LayerShapes& whole, const StageOptions& options) {
  // What is added to the whole sum is no part of a summand.
  const bool bias = product.has_bias, apart = bias && options.makes_partial_sum;
  LayerStages stages;
  if (apart) {
    stages.inner = {{.name = "z", .shape = whole.output, .in_master_type = true}};
    stages.stages = {Multiply(product, false, kSum), AddBias(), AddBiasBackward()};
  } else {
    stages.stages = {Multiply(product, bias, Y())};
  }
  for (Stage& stage : stages.stages) stage.by_sample = product.by_sample && stage.pass == Pass::kForward;
  // The weights' gradient comes first, so that its reduction starts as early as it can.
  stages.stages.push_back(MultiplyBackwardToWeights(product, bias && !apart));
  stages.stages.push_back(MultiplyBackwardToInput(product));
  stages.stages.back().by_sample = product.by_sample;
  return stages;
}

absl::StatusOr<Sharding> ProductByColumns(const LayerShapes& local, int64_t axis_size, absl::string_view channels) {
  RETURN_IF_ERROR(CheckDivides(Strategy::kColumn, axis_size, channels, local.output[1]));
  Sharding sharding = ReplicatedSharding(local);
  sharding.parameters.assign(local.parameters.size(), Placement::Split(0));
  sharding.parameter_gradients = sharding.parameters;
  sharding.output = sharding.output_gradient = Placement::Split(1);
  sharding.input_gradients = {Placement::Partial()};
  SetInnerPlacements(local, Placement::Split(1), sharding);
  return sharding;
}

absl::StatusOr<Sharding> ProductByRows(const LayerShapes& local, int64_t axis_size, absl::string_view channels) {
  RETURN_IF_ERROR(CheckDivides(Strategy::kRow, axis_size, channels, local.inputs[0][1]));
  Sharding sharding = ReplicatedSharding(local);
  sharding.inputs = sharding.input_gradients = {Placement::Split(1)};
  sharding.parameters[0] = sharding.parameter_gradients[0] = Placement::Split(1);
  if (local.inner.empty()) {
    sharding.output = Placement::Partial();
  } else {
    sharding.inner = {{.made = Placement::Partial(), .needed = Placement::Replicated()}};
  }
  return sharding;
}

}  // namespace colonnade::layers
