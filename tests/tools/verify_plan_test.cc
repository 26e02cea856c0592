// Longer than most sources: each bound has the network that needs it and a Program that is wrong beside it.

// That the comparison of a plan with one device says no when it should: plans are given Programs that are wrong in one
// thing.

#include "tools/verify_plan.h"

#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tests/open_stream.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

// What is done to the Programs of the plan; the single device's are right.
using Spoil = std::function<void(program::Program&, const partition::LowerOptions&)>;

// VerifyOptions::make_program, with that done; null: right Programs.
auto Spoiled(const Spoil& spoil) {
  return [spoil](const layers::LayerGraph& graph, const partition::Plan& plan, const partition::LowerOptions& lower) {
    absl::StatusOr<program::Program> program = partition::Lower(graph, plan, lower);
    if (program.ok() && plan.mesh.device_count() > 1 && spoil) spoil(*program, lower);
    return program;
  };
}

// In which arithmetic plans are compared, and with which bounds.
struct Arithmetic {
  const char* name = "f32";
  bool reference = false, bf16 = false, tf32 = false;
  double loss_bound = 1e-5, bound = 1e-4;  // of gradients and of parameters' changes
};

absl::StatusOr<VerifyReport> Verify(const Spoil& spoil, double learning_rate = 0.03, const Arithmetic& arithmetic = {},
                                    int64_t steps = 3) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = 16});
  const auto digits = OpenStream("digits");
  VerifyOptions options{.steps = steps,
                        .reference = arithmetic.reference,
                        .bf16 = arithmetic.bf16,
                        .tf32 = arithmetic.tf32,
                        .learning_rate = {.function = [=](int64_t) { return learning_rate; }},  // no base may overflow
                        .lower = {.global_batch = 16, .update = {.weight_decay = 5e-4}}};
  if (arithmetic.bf16) {
    options.make_backend = [](int devices) {
      return cpu::MakeCpuBackend(
          {.devices = devices, .threads_per_device = 1, .kernels = cpu::CpuOptions::Kernels::kReference});
    };
  }
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *digits, options);
}

// Calls `change` with every operation of the kind `T`.
template <class T, class Change>
void ForEach(program::Program& program, Change change) {
  for (program::Task& task : program.tasks) {
    auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) continue;
    if (auto* op = std::get_if<T>(&compute->op)) change(*op);
  }
}

constexpr Arithmetic kBf16{.name = "bf16", .bf16 = true, .loss_bound = 1.0 / 256, .bound = 1.0 / 256};

TEST(VerifyPlan, AgreesWhereNothingIsWrong) {
  absl::StatusOr<VerifyReport> report = Verify(nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok);
  EXPECT_TRUE(report->training_program_agrees);
  EXPECT_EQ(report->steps, 3);
}

TEST(VerifyPlan, WhatComparesNothingOrContradictsItselfIsRefused) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25});
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 16});
  const auto digits = OpenStream("digits");
  const auto refuses = [&](const std::string& message, const auto& change, const layers::LayerGraph& network) {
    VerifyOptions options{.steps = 1, .lower = {.global_batch = 16}};
    change(options);
    const absl::Status status = VerifyPlan(network, plan, *digits, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  refuses(
      "steps: expected at least 1, found 0", [](VerifyOptions& o) { o.steps = 0; }, graph);
  refuses(
      "found no make_backend", [](VerifyOptions& o) { o.make_backend = nullptr; }, graph);
  refuses(
      "found no make_program", [](VerifyOptions& o) { o.make_program = nullptr; }, graph);
  refuses(
      "lower.mode: expected", [](VerifyOptions& o) { o.lower.mode = program::Mode::kEval; }, graph);
  refuses(
      "reference or bf16, found both", [](VerifyOptions& o) { o.reference = o.bf16 = true; }, graph);
  refuses(
      "lower.dtype: expected f32, as", [](VerifyOptions& o) { o.lower.dtype = program::DType::kBF16; }, graph);
  refuses(
      "lower.dtype: expected bf16, as",
      [](VerifyOptions& o) {
        o.bf16 = true;
        o.lower.dtype = program::DType::kF64;
      },
      graph);
  refuses(
      "LearningRatePolicy::steps",
      [](VerifyOptions& o) { o.learning_rate.shape = engine::LearningRatePolicy::Shape::kCosine; }, graph);
  refuses("without layers", [](VerifyOptions&) {}, {});
  refuses(
      "expected images [1,8,16], as the network takes, found [1,8,8]", [](VerifyOptions&) {},
      [] {
        layers::GraphBuilder net("wide");
        const auto x = net.Flatten("flatten", net.Input("images", {1, 8, 16}));
        net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", x, {.out_features = 10}));
        return *std::move(net).Build();
      }());
}

TEST(VerifyPlan, InBf16AgreesWhereNothingIsWrongAndFindsWhatIs) {
  absl::StatusOr<VerifyReport> report = Verify(nullptr, 0.03, kBf16);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error;
  const auto spoil = [](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 1000; });
  };
  report = Verify(spoil, 0.03, kBf16);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
}

// resnet20 of 8 to 32 channels on digits of 8x8, under data parallelism.
absl::StatusOr<VerifyReport> VerifyResNet(const Spoil& spoil, int devices, int64_t batch, int64_t steps,
                                          const Arithmetic& arithmetic) {
  const layers::LayerGraph graph =
      *models::BuildModel("resnet20", {.input_channels = 1, .input_size = 8, .classes = 10, .width = 0.5});
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = devices, .global_batch = batch});
  const auto digits = OpenStream("digits");
  VerifyOptions options{.steps = steps,
                        .reference = arithmetic.reference,
                        .bf16 = arithmetic.bf16,
                        .learning_rate = {.base = 0.01},
                        .lower = {.global_batch = batch, .update = {.weight_decay = 5e-4}}};
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *digits, options);
}

// Whose tensors of eight elements roundings in bf16 move far.
absl::StatusOr<VerifyReport> VerifyFewElements(const Spoil& spoil) {
  return VerifyResNet(spoil, /*devices=*/2, /*batch=*/16, /*steps=*/6, kBf16);
}

// Eight elements' roundings are more in one draw than in another.
TEST(VerifyPlan, InBf16WhatRoundingsMakeOfAFewElementsIsTakenFromMoreThanOneDraw) {
  const absl::StatusOr<VerifyReport> report = VerifyFewElements(nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
  EXPECT_LT(report->tolerance.parameter, 2);
}

TEST(VerifyPlan, InBf16MoreDrawsExcuseNoUpdateThatIsWrong) {
  const auto spoil = [](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 200; });
  };
  const absl::StatusOr<VerifyReport> report = VerifyFewElements(spoil);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.gradient, report->tolerance.gradient);
  EXPECT_THAT(report->worst_tensor, HasSubstr("change of "));
}

TEST(VerifyPlan, FindsMasksOfAnotherStream) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::Dropout>(program, [](program::Dropout& op) { op.stream += 100; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_GT(report->error.loss, report->tolerance.loss);
  EXPECT_GT(report->error.gradient, report->tolerance.gradient);
}

TEST(VerifyPlan, FindsAnUpdateThatIsWrongWhereGradientsAreRight) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 2; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.loss, report->tolerance.loss);
  EXPECT_LE(report->error.gradient, report->tolerance.gradient);
  EXPECT_GT(report->error.parameter, report->tolerance.parameter);
  EXPECT_THAT(report->worst_tensor, HasSubstr("change of "));
}

TEST(VerifyPlan, FindsATrainingProgramThatDiffersFromTheOneThatShowsGradients) {
  absl::StatusOr<VerifyReport> report = Verify([](program::Program& program, const partition::LowerOptions& lower) {
    if (lower.expose_gradients) return;
    ForEach<program::SgdUpdate>(program, [](program::SgdUpdate& op) { op.weight_decay *= 1.01; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training_program_agrees);
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.parameter, report->tolerance.parameter);
}

// Running statistics, in double.
absl::StatusOr<VerifyReport> VerifyStatistics(const Spoil& spoil) {
  return VerifyResNet(spoil, /*devices=*/4, /*batch=*/8, /*steps=*/1, {.reference = true});
}

// The first update of running statistics on device 2.
program::BatchNormTrack& TrackOfDeviceTwo(program::Program& program) {
  for (program::Task& task : program.tasks) {
    auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr || task.device != 2) continue;
    if (auto* track = std::get_if<program::BatchNormTrack>(&compute->op)) return *track;
  }
  std::abort();
}

TEST(VerifyPlan, ComparesRunningStatistics) {
  absl::StatusOr<VerifyReport> report = VerifyStatistics(nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << report->differing_copies;
  report = VerifyStatistics([](program::Program& program, const partition::LowerOptions&) {
    ForEach<program::BatchNormTrack>(program, [](program::BatchNormTrack& op) { op.momentum += 1e-9; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_THAT(report->worst_tensor, HasSubstr("running_"));
  EXPECT_EQ(report->differing_copies, "");
}

// One device alone; what the others hold is right, and so is what is read last.
TEST(VerifyPlan, FindsTheRunningStatisticsOfOneDeviceOffByAnUlp) {
  absl::StatusOr<VerifyReport> report = VerifyStatistics([](program::Program& program, const partition::LowerOptions&) {
    double& momentum = TrackOfDeviceTwo(program).momentum;
    momentum = std::nextafter(momentum, 1.0);
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.parameter, report->tolerance.parameter);
  EXPECT_THAT(report->differing_copies, HasSubstr("running_"));
  EXPECT_THAT(report->differing_copies, HasSubstr("devices 0 and 2"));
}

// A bias before a normalisation, whose gradient is zero but for roundings, on images of `classes` classes.
absl::StatusOr<VerifyReport> VerifyZeroGradient(const Spoil& spoil, program::Optimizer optimizer, bool reference,
                                                int64_t classes = 10) {
  layers::GraphBuilder net("bias_before_norm");
  layers::LayerId x = net.Input("images", {1, 8, 8});
  x = net.Conv2d("conv", x, {.out_channels = 6, .kernel = 3, .pad = 1});
  x = net.BatchNorm("norm", x);
  x = net.FullyConnected("head", net.Flatten("flatten", x), {.out_features = classes});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = 0.1});
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 16});
  const auto images = OpenStream("synthetic", {}, {.synthetic_shape = {1, 8, 8}, .synthetic_classes = classes});
  VerifyOptions options{.steps = 2, .reference = reference, .learning_rate = {.base = 0.03}};
  options.lower.global_batch = 16;
  options.lower.update = {.optimizer = optimizer, .weight_decay = 5e-4, .average_decay = 0.9};
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *images, options);
}

TEST(VerifyPlan, AGradientThatIsRoundingsAloneAgreesUnderEveryOptimiser) {
  for (const program::Optimizer& optimizer :
       {program::Optimizer{program::Sgd{}}, program::Optimizer{program::Lars{}}, program::Optimizer{program::AdamW{}}}) {
    for (const bool reference : {true, false}) {
      const absl::StatusOr<VerifyReport> report = VerifyZeroGradient(nullptr, optimizer, reference);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->ok) << optimizer.index() << (reference ? " in double: " : ": ") << report->worst_tensor << " "
                              << report->worst_error << " of " << report->worst_bound;
      if (!reference) continue;
      EXPECT_EQ(report->tolerance.gradient, 1e-10) << "no more runs are needed to tell";
    }
  }
}

// Normalised values of a batch of two are nearly ±1, whatever they were, so that gradients are small differences.
TEST(VerifyPlan, GradientsThatMakeMuchOfRoundingsAreGrantedThoseOfTheirNeighbours) {
  const layers::LayerGraph graph = *models::BuildModel("resnet50", {.input_size = 32, .classes = 4, .width = 0.1});
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 2});
  const auto images = OpenStream("synthetic", {}, {.synthetic_shape = {3, 32, 32}, .synthetic_classes = 4});
  VerifyOptions options{.steps = 1, .reference = true, .learning_rate = {.base = 0.03}};
  options.lower.global_batch = 2;
  const absl::StatusOr<VerifyReport> report = VerifyPlan(graph, plan, *images, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
  EXPECT_GT(report->largest.gradient, 1e-10) << "the case is none any more";
}

// Elements of this bias have gradients of four digits less than the largest ones.
TEST(VerifyPlan, AnUpdateOfAdamWOfAGradientOfFewDigitsAgrees) {
  layers::GraphBuilder net("few_digits");
  layers::LayerId x = net.Input("images", {1, 7, 7});
  x = net.Conv2d("conv2d1", x, {.out_channels = 5, .kernel = 7, .stride = 3, .pad = 3, .bias = false});
  x = net.Conv2d("conv2d2", x,
                 {.out_channels = 5, .kernel = 2, .kernel_w = 1, .stride = 4, .pad = 1, .groups = 5, .bias = false});
  x = net.Lrn("lrn4", net.Relu("relu3", x), {.size = 5, .alpha = 0.01, .beta = 0.75, .k = 2});
  x = net.Lrn("lrn5", x, {.size = 3, .alpha = 0.01, .beta = 0.75, .k = 1});
  x = net.FullyConnected("fullyconnected7", net.Flatten("flatten6", x), {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", x, {.label_smoothing = 0.1});
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 4, .global_batch = 24});
  VerifyOptions options{.steps = 3, .reference = true, .learning_rate = {.base = 0.001}};
  options.lower.global_batch = 24;
  options.lower.update = {.optimizer = program::AdamW{}, .weight_decay = 0.01};
  const auto images = OpenStream("synthetic", {}, {.synthetic_shape = {1, 7, 7}, .synthetic_classes = 6});
  const absl::StatusOr<VerifyReport> report = VerifyPlan(graph, plan, *images, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
  EXPECT_GT(report->largest.parameter, 1e-10) << "the case is none any more";
}

// A fully connected layer before a normalisation over `samples_per_group` samples (0: over all), under data parallelism.
// Pixels at the edge of the digits never change: the gradients of their weights are roundings alone.
absl::StatusOr<VerifyReport> VerifyNormalisedDigits(const Spoil& spoil, int64_t samples_per_group,
                                                    const Arithmetic& arithmetic, const program::Optimizer& optimizer,
                                                    double average_decay = 0) {
  layers::GraphBuilder net("normalised_digits");
  layers::LayerId x =
      net.FullyConnected("fc1", net.Flatten("flatten", net.Input("images", {1, 8, 8})), {.out_features = 32});
  x = net.Relu("relu", net.BatchNorm("norm", x, {.samples_per_group = samples_per_group}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc2", x, {.out_features = 10}));
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 16});
  VerifyOptions options{.steps = 4, .bf16 = arithmetic.bf16, .learning_rate = {.base = 0.001}};
  options.lower.global_batch = 16;
  options.lower.update = {.optimizer = optimizer, .weight_decay = 0.01, .average_decay = average_decay};
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *OpenStream("digits"), options);
}

TEST(VerifyPlan, AnUpdateOfAdamWOfWeightsOfPixelsThatNeverChangeAgrees) {
  const absl::StatusOr<VerifyReport> report = VerifyNormalisedDigits(nullptr, 0, {}, program::AdamW{});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
  EXPECT_GT(report->largest.parameter, 0.01) << "the case is none any more";
}

TEST(VerifyPlan, BesideWeightsOfPixelsThatNeverChangeASmallErrorOfAdamWIsFound) {
  const absl::StatusOr<VerifyReport> report = VerifyNormalisedDigits(
      [](program::Program& program, const partition::LowerOptions&) {
        ForEach<program::AdamWUpdate>(program, [](program::AdamWUpdate& op) { op.adam.beta2 = 0.9991; });
      },
      0, {}, program::AdamW{});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_LE(report->error.gradient, report->tolerance.gradient);
}

// A group of two makes ±1 of whatever it is given, so that the gradient before it is small, and that of a bias zero.
TEST(VerifyPlan, InBf16AGradientThatIsRoundingsAloneAgrees) {
  const absl::StatusOr<VerifyReport> report = VerifyNormalisedDigits(nullptr, 2, kBf16, program::Sgd{});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
}

// The bias before the normalisation moves by roundings alone, and so does its average; AdamW makes whole steps of them.
TEST(VerifyPlan, InBf16WhatAdamWAndAveragesMakeOfRoundingsAgrees) {
  for (const program::Optimizer& optimizer : {program::Optimizer(program::Sgd{}), program::Optimizer(program::AdamW{})}) {
    for (const int64_t samples_per_group : {0, 2}) {
      const absl::StatusOr<VerifyReport> report =
          VerifyNormalisedDigits(nullptr, samples_per_group, kBf16, optimizer, /*average_decay=*/0.9);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
    }
  }
}

TEST(VerifyPlan, InBf16AnErrorOfAdamWOrOfAnAverageIsFound) {
  const auto found = [](const Spoil& spoil) {
    const absl::StatusOr<VerifyReport> report =
        VerifyNormalisedDigits(spoil, 0, kBf16, program::AdamW{}, /*average_decay=*/0.999);
    return report.ok() && !report->ok ? report->worst_tensor : "nothing";
  };
  EXPECT_THAT(found([](program::Program& program, const partition::LowerOptions&) {
                ForEach<program::AdamWUpdate>(program, [](program::AdamWUpdate& op) { op.adam.beta2 = 0.99; });
              }),
              HasSubstr("change of "));
  EXPECT_THAT(found([](program::Program& program, const partition::LowerOptions&) {
                ForEach<program::AverageUpdate>(program, [](program::AverageUpdate& op) { op.decay = 0.9985; });
              }),
              HasSubstr("average of "));
}

// A normalisation of one channel before another: in double its bias has a gradient of zero.
absl::StatusOr<VerifyReport> VerifyZeroInDouble(const Spoil& spoil) {
  layers::GraphBuilder net("norm_of_norm");
  layers::LayerId x = net.Input("images", {1, 8, 8});
  x = net.BatchNorm("norm2", net.BatchNorm("norm1", net.AvgPool("pool", x, {.kernel = 4, .stride = 2, .pad = 1})));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 8}));
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 4, .global_batch = 24});
  const auto images = OpenStream("synthetic", {}, {.synthetic_shape = {1, 8, 8}, .synthetic_classes = 8});
  VerifyOptions options{.steps = 3, .seed = 121, .learning_rate = {.base = 0.01}};
  options.lower.global_batch = 24;
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *images, options);
}

TEST(VerifyPlan, AGradientThatIsZeroInDoubleAgreesWhateverRoundingsItIs) {
  const absl::StatusOr<VerifyReport> report = VerifyZeroInDouble(nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
}

TEST(VerifyPlan, BesideAGradientThatIsZeroInDoubleASmallErrorIsFound) {
  const absl::StatusOr<VerifyReport> report = VerifyZeroInDouble([](program::Program& program, const auto&) {
    ForEach<program::BatchNormTrack>(program, [](program::BatchNormTrack& op) { op.momentum *= 1.001; });
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_THAT(report->worst_tensor, HasSubstr("running_"));
}

// Multiplies the rate by which one parameter is updated.
void ScaleRate(program::Program& program, absl::string_view parameter, double factor) {
  for (program::Task& task : program.tasks) {
    auto* compute = std::get_if<program::Compute>(&task.body);
    auto* update = compute != nullptr ? std::get_if<program::SgdUpdate>(&compute->op) : nullptr;
    if (update == nullptr) continue;
    const program::Buffer& updated = program.buffer(task.uses.back().buffer);
    const auto* bucket = std::get_if<program::Bucket>(&updated.storage);
    const std::vector<program::BufferId> members = bucket != nullptr ? bucket->members : std::vector{updated.id};
    update->rates.resize(members.size(), 1);
    for (size_t m = 0; m < members.size(); ++m) {
      if (program.buffer(members[m]).name == parameter) update->rates[m] = factor;
    }
  }
}

// Such a gradient may be other roundings, of some thousand times their norm, and so may the change that it makes.
TEST(VerifyPlan, AGradientThatIsZeroInDoubleExcusesNoChangeThatIsNoRoundings) {
  const absl::StatusOr<VerifyReport> report =
      VerifyZeroInDouble([](program::Program& program, const auto&) { ScaleRate(program, "norm1.bias", /*factor=*/1e6); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
  EXPECT_EQ(report->worst_tensor, "change of norm1.bias");
}

// A layer normalisation of numbers that hardly differ makes much of roundings, so that the norm of all gradients, by which
// clipped steps are scaled, has few digits.
TEST(VerifyPlan, AStepWhoseClippedGradientsHaveFewDigitsAgrees) {
  layers::GraphBuilder net("few_digits_of_norm");
  layers::LayerId x = net.MaxPool("pool1", net.Input("images", {3, 13, 13}), {.kernel = 3, .stride = 2, .pad = 1});
  x = net.Conv2d("conv1", x, {.out_channels = 6, .kernel = 3, .stride = 2});
  x = net.Conv2d("conv2", x, {.out_channels = 8, .kernel = 3, .stride = 3, .pad = 2});
  x = net.Conv2d("conv3", x, {.out_channels = 6, .kernel = 3, .kernel_w = 1, .stride = 3, .pad = 1, .groups = 2});
  x = net.MaxPool("pool2", x, {.kernel = 3, .pad = 1, .ceil_mode = true});
  x = net.LayerNorm("norm1", net.FullyConnected("fc1", net.Flatten("flatten", x), {.out_features = 8}));
  x = net.BatchNorm("norm2", net.FullyConnected("fc2", x, {.out_features = 12, .bias = false}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc3", x, {.out_features = 8}));
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("data", graph, {.devices = 2, .global_batch = 24});
  const auto images = OpenStream("synthetic", {}, {.synthetic_shape = {3, 13, 13}, .synthetic_classes = 8});
  for (uint64_t seed : {1, 4, 5, 9}) {
    VerifyOptions options{.steps = 1, .seed = seed, .learning_rate = {.base = 0.01}};
    options.lower.global_batch = 24;
    options.lower.update = {.clip_norm = 0.1};
    const absl::StatusOr<VerifyReport> report = VerifyPlan(graph, plan, *images, options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->ok) << "seed " << seed << ": " << report->worst_tensor << " " << report->worst_error << " of "
                            << report->worst_bound;
  }
}

// A convolution that pads its images all around gives each pixel of a normalised one to every output of a window, so that
// the mean of what it makes is zero but for roundings.
absl::StatusOr<VerifyReport> VerifyZeroMean(const Spoil& spoil, bool reference) {
  layers::GraphBuilder net("zero_mean");
  layers::LayerId x = net.Input("images", {1, 8, 8});
  x = net.BatchNorm("norm1", net.Conv2d("conv1", x, {.out_channels = 12, .kernel = 3, .pad = 1, .bias = false}));
  x = net.BatchNorm("norm2", net.Conv2d("conv2", x, {.out_channels = 48, .kernel = 3, .pad = 2, .bias = false}));
  x = net.FullyConnected("head", net.Flatten("flatten", net.Relu("relu", x)), {.out_features = 10});
  net.SoftmaxCrossEntropy("loss", x);
  const layers::LayerGraph graph = *std::move(net).Build();
  const partition::Plan plan = *partition::NamedPlan("model", graph, {.devices = 2, .global_batch = 48});
  VerifyOptions options{.steps = 2, .reference = reference, .learning_rate = {.base = 0.01}};
  options.lower.global_batch = 48;
  options.make_program = Spoiled(spoil);
  return VerifyPlan(graph, plan, *OpenStream("digits"), options);
}

TEST(VerifyPlan, AMeanThatIsRoundingsAloneAgrees) {
  for (const bool reference : {false, true}) {
    const absl::StatusOr<VerifyReport> report = VerifyZeroMean(nullptr, reference);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
    if (!reference) {
      EXPECT_GT(report->largest.parameter, 0.1) << "the case is none any more";
    }
  }
}

TEST(VerifyPlan, BesideAMeanThatIsRoundingsAloneASmallErrorIsFound) {
  const absl::StatusOr<VerifyReport> report = VerifyZeroMean(
      [](program::Program& program, const partition::LowerOptions&) {
        ForEach<program::BatchNormTrack>(program, [](program::BatchNormTrack& op) { op.momentum *= 1.001; });
      },
      /*reference=*/false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->ok);
}

// A bias before a normalisation has no gradient but roundings, of which any multiple agrees; what is shown is another
// tensor.
TEST(VerifyPlan, WhatIsShownIsTheTensorNearestItsBound) {
  const absl::StatusOr<VerifyReport> report = VerifyZeroGradient(nullptr, program::Sgd{}, /*reference=*/false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->largest.gradient, 0.1);
  EXPECT_LT(report->error.gradient, 1e-3);
  EXPECT_LE(report->error.gradient, report->tolerance.gradient);
  EXPECT_LT(report->tolerance.gradient, 1e-3);
}

TEST(VerifyPlan, ALossOfOneClassIsZeroAndAgrees) {
  const absl::StatusOr<VerifyReport> report = VerifyZeroGradient(nullptr, program::Sgd{}, /*reference=*/false, 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
}

// What is granted to roundings is granted to nothing larger.
TEST(VerifyPlan, BesideAGradientThatIsRoundingsAloneASmallErrorIsFound) {
  for (const double error : {1e-9, 1e-7}) {
    const absl::StatusOr<VerifyReport> report = VerifyZeroGradient(
        [&](program::Program& program, const partition::LowerOptions&) {
          ForEach<program::SgdUpdate>(program, [&](program::SgdUpdate& op) { op.weight_decay *= 1 + 100 * error; });
          ForEach<program::BatchNormTrack>(program, [&](program::BatchNormTrack& op) { op.momentum *= 1 + error; });
        },
        program::Sgd{}, /*reference=*/true);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->ok) << error;
  }
}

TEST(VerifyPlan, WeightsThatOverflowAreNotFiniteRatherThanEqual) {
  const absl::Status status = Verify(nullptr, std::numeric_limits<double>::max()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
}

TEST(VerifyPlan, WeightsThatOverflowInTheLastStepAreNotFinite) {
  const absl::Status status = Verify(nullptr, std::numeric_limits<double>::max(), {}, /*steps=*/1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite after the update"));
}

// Something wrong in the plan's Programs, as much as is asked for.
using Tunable = void (*)(program::Program&, double amount);

void DecayMore(program::Program& program, double amount) {
  ForEach<program::SgdUpdate>(program, [&](program::SgdUpdate& op) { op.weight_decay += amount; });
}
void BendBackward(program::Program& program, double amount) {
  ForEach<program::LrnBackward>(program, [&](program::LrnBackward& op) { op.beta += amount; });
}
void BendForward(program::Program& program, double amount) {
  ForEach<program::LrnForward>(program, [&](program::LrnForward& op) { op.beta += amount; });
}

// A gradient may be off by 4e-5. A parameter that changes by a few of its roundings is then off by more than 1e-4 of that.
TEST(VerifyPlan, GrantsAChangeTheRoundingsOfItsParameter) {
  const auto bend = [](program::Program& program, const partition::LowerOptions&) { BendBackward(program, 6e-5); };
  const absl::StatusOr<VerifyReport> report = Verify(bend, 5e-4, {}, /*steps=*/1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok) << report->worst_tensor << " " << report->worst_error << " of " << report->worst_bound;
  EXPECT_LE(report->largest.gradient, 1e-4);
  EXPECT_GT(report->largest.parameter, 1e-4);
  EXPECT_LE(report->worst_error, report->worst_bound);
}

// The report of one step where the error is about `target`: errors grow nearly in proportion to the amount.
absl::StatusOr<VerifyReport> WithError(double target, Tunable tunable, double VerifyErrors::*what,
                                       const Arithmetic& arithmetic) {
  double amount = target;
  absl::StatusOr<VerifyReport> report;
  for (int attempt = 0; attempt < 5; ++attempt) {
    report = Verify([&](program::Program& program, const partition::LowerOptions&) { tunable(program, amount); }, 0.03,
                    arithmetic, /*steps=*/1);
    if (!report.ok() || std::abs(report->error.*what / target - 1) < 0.1) return report;
    amount *= target / (report->error.*what);
  }
  return report;
}

class VerifyBounds : public ::testing::TestWithParam<Arithmetic> {
 protected:
  // A little below the bound agrees, a little above it does not.
  void ExpectBoundAt(double bound, Tunable tunable, double VerifyErrors::*what) {
    const absl::StatusOr<VerifyReport> below = WithError(0.7 * bound, tunable, what, GetParam());
    ASSERT_TRUE(below.ok()) << below.status();
    EXPECT_NEAR(below->error.*what / bound, 0.7, 0.15);
    EXPECT_TRUE(below->ok) << below->worst_tensor << " " << below->worst_error;
    const absl::StatusOr<VerifyReport> above = WithError(1.5 * bound, tunable, what, GetParam());
    ASSERT_TRUE(above.ok()) << above.status();
    EXPECT_NEAR(above->error.*what / bound, 1.5, 0.3);
    EXPECT_FALSE(above->ok) << above->worst_tensor << " " << above->worst_error;
  }
};

TEST_P(VerifyBounds, OfAParametersChange) { ExpectBoundAt(GetParam().bound, DecayMore, &VerifyErrors::parameter); }
TEST_P(VerifyBounds, OfAGradient) { ExpectBoundAt(GetParam().bound, BendBackward, &VerifyErrors::gradient); }

// What bends the loss bends gradients more, so that they would fail, too: the bound is read from the report.
TEST_P(VerifyBounds, OfTheLoss) {
  const double bound = GetParam().loss_bound;
  const absl::StatusOr<VerifyReport> above = WithError(1.5 * bound, BendForward, &VerifyErrors::loss, GetParam());
  ASSERT_TRUE(above.ok()) << above.status();
  EXPECT_NEAR(above->error.loss / bound, 1.5, 0.3);
  EXPECT_GT(above->error.loss, above->tolerance.loss);
  EXPECT_FALSE(above->ok);
  EXPECT_EQ(above->tolerance.loss, bound);
}

INSTANTIATE_TEST_SUITE_P(
    Arithmetics, VerifyBounds,
    ::testing::Values(Arithmetic{}, Arithmetic{.name = "reference", .reference = true, .loss_bound = 1e-10, .bound = 1e-10},
                      Arithmetic{.name = "tf32", .tf32 = true, .loss_bound = 5e-3, .bound = 5e-3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(VerifyPlan, InBf16BoundsAreOneRoundingOrOneAndAHalfTimesTheReferencesDistance) {
  const absl::StatusOr<VerifyReport> report = Verify(nullptr, 0.03, kBf16, /*steps=*/1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->tolerance.loss, kBf16.loss_bound) << "the loss is nearer than a rounding";
  // The plan rounds where the reference on one device does, so that both are about as far from double.
  for (double VerifyErrors::*what : {&VerifyErrors::gradient, &VerifyErrors::parameter}) {
    EXPECT_GT(report->tolerance.*what, kBf16.bound);
    EXPECT_NEAR(report->tolerance.*what / (report->error.*what), 1.5, 0.3);
  }
}

// Of 8 bytes a number: the state before (w, v), what one device, the plan and the plan's training Program make of it, and
// the first two's gradients; in bf16 also what the two references make.
TEST(HostBytesOfVerify, AreThoseOfStatesAndGradientsInDouble) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.5});
  const partition::Plan plan = *partition::NamedPlan("hybrid", graph, {.devices = 4, .global_batch = 8});
  const int64_t gradients = 8 * graph.ParameterCount(), state = 2 * gradients;
  partition::LowerOptions lower{.global_batch = 8};
  EXPECT_EQ(HostBytesOfVerify(*partition::Lower(graph, plan, lower)), 4 * state + 2 * gradients);
  lower.dtype = program::DType::kF64;
  EXPECT_EQ(HostBytesOfVerify(*partition::Lower(graph, plan, lower)), 4 * state + 2 * gradients);
  lower.dtype = program::DType::kBF16;
  EXPECT_EQ(HostBytesOfVerify(*partition::Lower(graph, plan, lower)), 6 * state + 4 * gradients);
}

}  // namespace
}  // namespace colonnade::tools
