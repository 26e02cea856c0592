// LowerOptions::shown_layers: what the host gets of layers is what one device computes, under any plan.

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/classification.h"
#include "engine/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/traits.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/formulas/bfloat16.h"
#include "tests/partition/random_run.h"
#include "tests/sanitized.h"

namespace colonnade::partition {
namespace {

using program::Mode;
using ::testing::HasSubstr;

// All layers that may be shown: in evaluation those that the network's own loss depends on.
std::set<std::string> Shown(const layers::LayerGraph& graph, Mode mode) {
  const std::vector<bool> reaches_last = graph.ReachesLast();
  std::set<std::string> shown;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const layers::LayerNode& node = graph.nodes[i];
    if (layers::IsInput(node.layer) || layers::IsLoss(node.layer)) continue;
    if (mode == Mode::kTrain || reaches_last[i]) shown.insert(node.name);
  }
  return shown;
}

struct Activations {
  double loss = 0;
  Tensors tensors;  // by layer
};

// What a step makes. Draws parameters into `parameters` where it has none.
absl::StatusOr<Activations> Activate(const Drawn& drawn, const Plan& plan, const LowerOptions& options, const Batch& batch,
                                     Random& random, Tensors& parameters) {
  auto run = PlannedRun::Create(drawn.network.graph, plan, options, cpu::CpuOptions::Kernels::kReference);
  if (!run.ok()) return run.status();
  if (parameters.empty()) parameters = DrawParameters(random, (*run)->program);
  if (absl::Status s = (*run)->SetParameters(parameters); !s.ok()) return s;
  const engine::StepInputs inputs{.learning_rate = 1.0 / 64, .seed = 7};
  absl::StatusOr<engine::ScoredStep> step = engine::RunStep(*(*run)->executor, batch.images, batch.labels, inputs);
  if (!step.ok()) return step.status();
  Activations found{.loss = step->loss};
  for (const std::string& layer : options.shown_layers) {
    absl::StatusOr<std::vector<double>> values = (*run)->executor->ReadActivation(layer);
    if (!values.ok()) return values.status();
    found.tensors[layer] = *std::move(values);
  }
  return found;
}

// In double, of random networks under random plans, of which some move activations in parts of the batch.
TEST(ShownLayers, EveryLayerOfRandomNetworksIsWhatOneDeviceMakes) {
  Random random(1509);
  int in_parts = 0, split = 0;
  for (int i = 0; i < Draws(60); ++i) {
    const Drawn drawn = DrawCase(random, false);
    const Batch batch = DrawBatch(random, drawn.network, drawn.batch, false);
    Tensors parameters;
    for (Mode mode : {Mode::kTrain, Mode::kEval}) {
      LowerOptions options{.mode = mode, .global_batch = drawn.batch, .dtype = program::DType::kF64};
      absl::StatusOr<Activations> alone =
          Activate(drawn, SinglePlan(drawn.network.graph), options, batch, random, parameters);
      ASSERT_TRUE(alone.ok()) << alone.status() << "\n" << Describe(drawn, i);
      options.shown_layers = Shown(drawn.network.graph, mode);
      absl::StatusOr<Activations> one = Activate(drawn, SinglePlan(drawn.network.graph), options, batch, random, parameters);
      absl::StatusOr<Activations> many = Activate(drawn, drawn.plan, options, batch, random, parameters);
      ASSERT_TRUE(one.ok()) << one.status() << "\n" << Describe(drawn, i);
      ASSERT_TRUE(many.ok()) << many.status() << "\n" << Describe(drawn, i);
      EXPECT_NEAR(one->loss, alone->loss, 1e-12 * std::abs(alone->loss)) << "showing layers changes nothing";
      for (const auto& [layer, values] : one->tensors) {
        EXPECT_LE(RelativeDistance(many->tensors.at(layer), values), 1e-10) << layer << "\n" << Describe(drawn, i);
      }
    }
    in_parts += drawn.plan.transfer_parts > 1;
    split += drawn.plan.mesh.axes[1].size > 1;
  }
  if (kSanitized) return;
  EXPECT_GE(in_parts, 10);
  EXPECT_GE(split, 30);
}

// The logits of the last layer give the loss that the step reports.
TEST(ShownLayers, TheLogitsAreThoseOfTheLossInEachMicroBatch) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25, .dropout = false});
  constexpr int64_t kBatch = 8;
  Random random(4);
  Batch batch;
  std::normal_distribution<float> normal;
  batch.images.resize(program::ElementCount(graph.OutputShape(layers::LayerId{0}, kBatch)));
  for (float& v : batch.images) v = normal(random);
  for (int32_t i = 0; i < kBatch; ++i) batch.labels.push_back(i);
  for (int64_t micro_batches : {1, 2, 4}) {
    const Plan plan = *NamedPlan("hybrid", graph, {.devices = 4, .global_batch = kBatch / micro_batches});
    const LowerOptions options{
        .global_batch = kBatch, .micro_batches = micro_batches, .shown_layers = {graph.logits().name}};
    auto run = PlannedRun::Create(graph, plan, options, cpu::CpuOptions::Kernels::kOneDnn);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(engine::InitializeParameters((*run)->executor->loaded(), 1).ok());
    absl::StatusOr<engine::ScoredStep> step = engine::RunStep(*(*run)->executor, batch.images, batch.labels, {});
    ASSERT_TRUE(step.ok()) << step.status();
    absl::StatusOr<std::vector<double>> logits = (*run)->executor->ReadActivation(graph.logits().name);
    ASSERT_TRUE(logits.ok()) << logits.status();
    double loss = 0;
    for (int64_t i = 0; i < kBatch; ++i) {
      const auto of_sample = absl::MakeConstSpan(*logits).subspan(i * graph.classes(), graph.classes());
      for (const engine::Guess& guess : engine::LikeliestClasses(of_sample, graph.classes())) {
        if (guess.label == batch.labels[i]) loss -= std::log(guess.probability) / kBatch;
      }
    }
    EXPECT_NEAR(loss, step->loss, 1e-5 * step->loss) << micro_batches;
  }
}

// In bf16 the host gets the numbers that the next layer reads.
TEST(ShownLayers, ActivationsOfBf16AreReadAsTheyAre) {
  const layers::LayerGraph graph = *models::BuildModel("two_column", {.width = 0.25, .dropout = false});
  const std::string logits = graph.logits().name;
  std::vector<std::vector<double>> found;
  for (program::DType dtype : {program::DType::kF32, program::DType::kBF16}) {
    const LowerOptions options{.mode = Mode::kEval, .global_batch = 2, .dtype = dtype, .shown_layers = {logits}};
    auto run = PlannedRun::Create(graph, SinglePlan(graph), options, cpu::CpuOptions::Kernels::kOneDnn);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(engine::InitializeParameters((*run)->executor->loaded(), 1).ok());
    const std::vector<float> images(program::ElementCount(graph.OutputShape(layers::LayerId{0}, 2)), 0.5f);
    ASSERT_TRUE(engine::RunStep(*(*run)->executor, images, {1, 2}, {}).ok());
    found.push_back(*(*run)->executor->ReadActivation(logits));
  }
  EXPECT_LE(RelativeDistance(found[1], found[0]), 0.05);
  EXPECT_GT(RelativeDistance(found[1], found[0]), 1e-6);
  for (double value : found[1]) EXPECT_EQ(value, float{program::BFloat16(static_cast<float>(value))});
}

// What moves for the host alone is behind all for which a device waits.
TEST(ShownLayers, WhatIsGatheredForTheHostMovesLast) {
  layers::GraphBuilder net("joined");
  const auto x = net.Input("images", {4, 4, 4});
  const auto joined = net.Concat("concat", {net.Conv2d("a", x, {.out_channels = 4, .kernel = 1}),
                                            net.Conv2d("b", x, {.out_channels = 8, .kernel = 1})});
  const auto pooled = net.MaxPool("pool", joined, {.kernel = 2, .stride = 2});  // which is what else moves
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", pooled), {.out_features = 4}));
  const layers::LayerGraph graph = std::move(net).Build().value();
  const Plan plan = *NamedPlan("model", graph, {.devices = 2, .global_batch = 4});
  const LowerOptions options{.global_batch = 4, .shown_layers = {"concat"}};
  const absl::StatusOr<program::Program> program = Lower(graph, plan, options);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<bool> for_the_host;
  for (const program::Task& task : program->tasks) {
    if (task.device == 0 && task.lane == program::Lane::kComm) {
      for_the_host.push_back(task.provenance.pass == program::Pass::kOutput);
    }
  }
  ASSERT_GE(for_the_host.size(), 2);
  EXPECT_TRUE(for_the_host.back()) << "the sections of a concatenation are no box";
  EXPECT_TRUE(std::is_sorted(for_the_host.begin(), for_the_host.end()));
}

TEST(ShownLayers, WhatCannotBeShownIsNamed) {
  const layers::LayerGraph graph = *models::BuildModel("googlenet", {.input_size = 96, .auxiliary_heads = true});
  const auto problem = [&](Mode mode, const std::string& layer) {
    const LowerOptions options{.mode = mode, .global_batch = 2, .shown_layers = {layer}};
    return std::string(Lower(graph, SinglePlan(graph), options).status().message());
  };
  EXPECT_THAT(problem(Mode::kEval, "fd"), HasSubstr("layer to be shown: expected one of network \"googlenet\""));
  EXPECT_THAT(problem(Mode::kEval, graph.logits().name), ::testing::IsEmpty());
  EXPECT_THAT(problem(Mode::kEval, graph.nodes[0].name), HasSubstr("found \"" + graph.nodes[0].name + "\""));
  EXPECT_THAT(problem(Mode::kTrain, graph.nodes.back().name), HasSubstr("found \"loss\""));
  EXPECT_THAT(problem(Mode::kTrain, "head1.fc2"), ::testing::IsEmpty());
  EXPECT_THAT(problem(Mode::kEval, "head1.fc2"), HasSubstr("that makes an activation in this step, found \"head1.fc2\""));
}

TEST(ShownLayers, ALayerThatIsNotShownIsNamed) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  LowerOptions options{.mode = Mode::kEval, .global_batch = 1};
  auto none = PlannedRun::Create(graph, SinglePlan(graph), options, cpu::CpuOptions::Kernels::kOneDnn);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT((*none)->executor->ReadActivation(graph.logits().name).status().message(),
              HasSubstr("it shows none: name the layer in LowerOptions::shown_layers"));
  options.shown_layers = {graph.logits().name};
  auto run = PlannedRun::Create(graph, SinglePlan(graph), options, cpu::CpuOptions::Kernels::kOneDnn);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT((*run)->executor->ReadActivation(graph.logits().name).status().message(), HasSubstr("no step"));
  EXPECT_THAT((*run)->executor->ReadActivation("conv9").status().message(), HasSubstr("found \"conv9\""));
}

}  // namespace
}  // namespace colonnade::partition
