#include "layers/batch_norm.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "layers/common_shardings.h"
#include "program/epsilon.h"

namespace colonnade::layers {
namespace {

using program::Pass;
using Ops = std::vector<EmittedOp>;

const Slot kMean = State(0), kVariance = State(1);
// f64 [groups,2,C]: of the batch, of its gradients, of the running mean and variance, and [1,2,C] over all groups.
const Slot kSums = Inner(0), kGradientSums = Inner(1), kRecalled = Inner(2), kTotals = Inner(3);

// Elements that a mean is of, over all devices.
int64_t Count(const Operand& x, const Operand& sums) {
  return program::ElementCount(x.global_shape) / (sums.global_shape[0] * x.global_shape[1]);
}

Stage Sum(bool in_groups) {
  Stage stage{.pass = Pass::kForward, .reads = {X()}, .writes = {kSums}};
  if (in_groups) stage.writes.push_back(kTotals);
  stage.emit = [in_groups](const StageShard& s) -> Ops {
    EmittedOp op{.op = program::BatchNormSums{}, .uses = {Read(s[X()]), Write(s[kSums])}, .flops = 3 * Elements(s[X()])};
    if (in_groups) op.uses.push_back(Write(s[kTotals]));
    return {std::move(op)};
  };
  return stage;
}

bool HasRelu(const StageShard& s) { return s.epilogue == program::Activation::kRelu; }

EmittedOp Normalise(const StageShard& s, Slot sums, int64_t count, double epsilon) {
  EmittedOp op{.op = program::BatchNormForward{.count = count, .epsilon = epsilon, .relu = HasRelu(s)},
               .uses = {Read(s[X()]), Read(s[sums]), Read(s[kWeight]), Read(s[kBias])},
               .flops = 3 * Elements(s[X()])};
  if (const Operand* addend = s.fused(Fused::kAddend)) {
    op.uses.push_back(Read(*addend));
    op.flops = 4 * Elements(s[X()]);
  }
  op.uses.push_back(Write(s[Y()]));
  return op;
}

Stage NormaliseByBatch(const BatchNorm& layer) {
  Stage stage{.pass = Pass::kForward,
              .reads = {X(), kSums, kWeight, kBias},
              .writes = {Y()},
              .reads_masters = true,
              .accepts = {.epilogue = true, .addend = true}};
  stage.emit = [epsilon = layer.epsilon](const StageShard& s) -> Ops {
    return {Normalise(s, kSums, Count(s[X()], s[kSums]), epsilon)};
  };
  return stage;
}

// What the product before reads instead of its own weight and bias, so that it makes what Normalise would.
EmittedOp Fold(const StageShard& s, double epsilon) {
  const Operand &weight = *s.fused(Fused::kWeight), &folded = *s.fused(Fused::kFoldedWeight);
  EmittedOp op{.op = program::BatchNormFold{.epsilon = epsilon},
               .uses = {Read(weight), Read(s[kMean]), Read(s[kVariance]), Read(s[kWeight]), Read(s[kBias])},
               .flops = Elements(weight)};
  if (const Operand* bias = s.fused(Fused::kBias)) op.uses.push_back(Read(*bias));
  op.uses.insert(op.uses.end(), {Write(folded), Write(*s.fused(Fused::kFoldedBias))});
  return op;
}

// The stage of evaluation. The sums of one element that has the running mean and variance stand for those of a batch.
Stage NormaliseByRunning(const BatchNorm& layer) {
  Stage stage{.pass = Pass::kForward,
              .reads = {X(), kMean, kVariance, kWeight, kBias},
              .writes = {Y(), kRecalled},
              .reads_masters = true,
              .meaning = ChannelScaling{},
              .accepts = {.epilogue = true, .addend = true}};
  stage.emit = [epsilon = layer.epsilon](const StageShard& s) -> Ops {
    if (s.fused(Fused::kWeight) != nullptr) return {Fold(s, epsilon)};
    return {{.op = program::BatchNormRecall{}, .uses = {Read(s[kMean]), Read(s[kVariance]), Write(s[kRecalled])}},
            Normalise(s, kRecalled, 1, epsilon)};
  };
  return stage;
}

Stage Track(const BatchNorm& layer, Slot sums, int64_t count) {
  Stage stage{.pass = Pass::kForward, .reads = {sums, kMean, kVariance}};
  stage.emit = [momentum = layer.momentum, sums, count](const StageShard& s) -> Ops {
    EmittedOp op{.op = program::BatchNormTrack{.count = count, .momentum = momentum},
                 .uses = {Read(s[sums]), Accumulate(s[kMean]), Accumulate(s[kVariance])}};
    if (s.gate.has_value()) op.uses.push_back(Read(*s.gate));
    return {op};
  };
  return stage;
}

// Emits the sums of D(Y) as it is, or with the ReLU worked out anew.
EmittedOp SumGradientsOnly(const StageShard& s, double epsilon) {
  const Operand &x = s[X()], &dy = s[D(Y())], &sums = s[kSums];
  const program::BatchNormBackwardSums op{.count = Count(x, sums), .epsilon = epsilon};
  if (!HasRelu(s)) {
    return {.op = op, .uses = {Read(x), Read(dy), Read(sums)}, .flops = 5 * Elements(x)};
  }
  return {.op = op, .uses = {Read(x), Read(dy), Read(sums), Read(s[kWeight]), Read(s[kBias])}, .flops = 8 * Elements(x)};
}

EmittedOp MaskAndSumGradients(const StageShard& s, const Operand& mask, double epsilon) {
  const Operand &x = s[X()], &dy = s[D(Y())], &sums = s[kSums], &masked = *s.fused(Fused::kMaskedGradient);
  EmittedOp op{.op = program::BatchNormMaskedSums{.count = Count(x, sums), .epsilon = epsilon},
               .uses = {Read(x), Read(mask), Read(dy), Read(sums)},
               .flops = 6 * Elements(x)};
  if (const Operand* more = s.fused(Fused::kGradientAddend)) {
    op.uses.push_back(Read(*more));
    op.flops = 7 * Elements(x);
  }
  op.uses.push_back(Write(masked));
  return op;
}

Stage SumGradients(const BatchNorm& layer) {
  Stage stage{.pass = Pass::kBackward,
              .reads = {X(), D(Y()), kSums, kWeight, kBias},
              .writes = {kGradientSums, D(kWeight), D(kBias)},
              .reads_masters = true,
              .accepts = {.mask = true, .recalled_mask = true}};
  stage.emit = [epsilon = layer.epsilon](const StageShard& s) -> Ops {
    const Operand* mask = s.fused(Fused::kMaskSource);
    EmittedOp op = mask != nullptr ? MaskAndSumGradients(s, *mask, epsilon) : SumGradientsOnly(s, epsilon);
    for (Slot written : {kGradientSums, D(kWeight), D(kBias)}) op.uses.push_back(Write(s[written]));
    return {std::move(op)};
  };
  return stage;
}

Stage ApplyGradients(const BatchNorm& layer) {
  Stage stage{.pass = Pass::kBackward,
              .reads = {X(), D(Y()), kSums, kGradientSums, kWeight, kBias},
              .writes = {D(X())},
              .reads_masters = true,
              .accepts = {.recalled_mask = true}};
  stage.emit = [epsilon = layer.epsilon](const StageShard& s) -> Ops {
    const Operand &x = s[X()], &dy = s[D(Y())], &sums = s[kSums], &dx = s[D(X())];
    EmittedOp op{.op = program::BatchNormBackward{.count = Count(x, sums), .epsilon = epsilon},
                 .uses = {Read(x), Read(dy), Read(sums), Read(s[kGradientSums]), Read(s[kWeight])},
                 .flops = 6 * Elements(x)};
    if (HasRelu(s)) {
      op.uses.push_back(Read(s[kBias]));
      op.flops += 3 * Elements(x);
    }
    op.uses.push_back(Write(dx));
    return {std::move(op)};
  };
  return stage;
}

// Channels lie along dimension 1 of x and along dimension 2 of sums.
absl::StatusOr<Sharding> NormByChannels(const LayerShapes& local, int64_t axis_size) {
  ASSIGN_OR_RETURN(Sharding sharding, ChannelwiseSharding(local, axis_size));
  sharding.parameters.assign(2, Placement::Split(0));
  sharding.parameter_gradients = sharding.state = sharding.parameters;
  SetInnerPlacements(local, Placement::Split(2), sharding);
  return sharding;
}

// Sums are added over devices, or each device has groups of its own.
absl::StatusOr<Sharding> NormBySamples(const BatchNorm& layer, const LayerShapes& local, int64_t axis_size) {
  ASSIGN_OR_RETURN(Sharding sharding, BatchSharding(local, axis_size));
  const InnerPlacement added{.made = Placement::Partial(), .needed = Placement::Replicated()};
  SetInnerPlacements(local, Placement::Replicated(), sharding);
  sharding.inner[kSums.index] = sharding.inner[kGradientSums.index] = added;
  if (layer.samples_per_group == 0) return sharding;
  RETURN_IF_ERROR(CheckDivides(Strategy::kBatch, axis_size,
                               absl::StrCat("groups of ", base::Counted(layer.samples_per_group, "sample")),
                               local.inner[kSums.index][0]));
  const InnerPlacement own{.made = Placement::Split(0), .needed = Placement::Split(0)};
  sharding.inner[kSums.index] = sharding.inner[kGradientSums.index] = own;
  sharding.inner[kTotals.index] = added;
  return sharding;
}

}  // namespace

const char* TypeName(const BatchNorm&) { return "BatchNorm"; }

std::vector<Field> Fields(BatchNorm& norm) {
  return {{"epsilon", &norm.epsilon},
          {"momentum", &norm.momentum},
          {"samples_per_group", &norm.samples_per_group},
          {"initial_weight", &norm.initial_weight}};
}

absl::StatusOr<program::Shape> OutputSampleShape(const BatchNorm& layer, absl::Span<const program::Shape> inputs) {
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(absl::StrFormat("expected one input with channels, found %d", inputs.size()));
  }
  if (inputs[0].size() != 1 && inputs[0].size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected an input of shape [F] or [C,H,W], found %s", program::ToString(inputs[0])));
  }
  RETURN_IF_ERROR(program::CheckEpsilon(layer.epsilon));
  if (!(layer.momentum >= 0 && layer.momentum <= 1)) {
    return absl::InvalidArgumentError(absl::StrFormat("expected momentum from 0 to 1, found %g", layer.momentum));
  }
  if (layer.samples_per_group < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected samples_per_group of at least 0, found %d", layer.samples_per_group));
  }
  return inputs[0];
}

std::vector<ParameterSpec> Parameters(const BatchNorm& layer, absl::Span<const program::Shape> inputs) {
  const program::Shape channels = {inputs[0][0]};
  return {{"weight", channels, {program::Initializer::Kind::kConstant, layer.initial_weight}}, {"bias", channels, {}}};
}

absl::StatusOr<Sharding> Shard(const BatchNorm& layer, const LayerShapes& local, Strategy strategy, int64_t axis_size) {
  switch (strategy) {
    case Strategy::kReplicate:
      return ReplicatedSharding(local);
    case Strategy::kBatch:
      return NormBySamples(layer, local, axis_size);
    case Strategy::kGroup:
      return NormByChannels(local, axis_size);
    case Strategy::kColumn:
    case Strategy::kRow:
      break;
  }
  return NotLegal("BatchNorm", strategy, "expected replicate, batch or group");
}

LayerStages Stages(const BatchNorm& layer, const LayerShapes& whole, const StageOptions& options) {
  const int64_t samples = whole.inputs[0][0], channels = whole.inputs[0][1];
  const bool in_groups = layer.samples_per_group > 0;
  const int64_t groups = in_groups ? samples / layer.samples_per_group : 1;
  const auto sums = [channels](const char* name, int64_t of_groups) {
    return InnerSpec{.name = name, .shape = {of_groups, 2, channels}, .dtype = program::DType::kF64};
  };
  LayerStages stages{.state = {{"running_mean", {channels}, {program::Initializer::Kind::kConstant, 0}},
                               {"running_var", {channels}, {program::Initializer::Kind::kConstant, 1}}},
                     .inner = {sums("sums", groups), sums("gradient_sums", groups), sums("recalled", 1), sums("totals", 1)}};
  if (!options.train) {
    stages.inner[kRecalled.index].required = true;
    stages.stages = {NormaliseByRunning(layer)};
    return stages;
  }
  const int64_t count = options.micro_batches * program::ElementCount(whole.inputs[0]) / channels;
  stages.stages = {Sum(in_groups), NormaliseByBatch(layer), Track(layer, in_groups ? kTotals : kSums, count),
                   SumGradients(layer), ApplyGradients(layer)};
  return stages;
}

}  // namespace colonnade::layers
