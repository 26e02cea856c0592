#include "partition/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/partition/lowered.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using program::Program;
using program::Task;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Tensors of the network, or their gradients.
bool Moves(const Program& program, const Task& task) {
  return !std::holds_alternative<program::Compute>(task.body) && !SumsNumbersOfTheStep(program, task);
}

// Layers for which data moves between devices, in one pass.
std::set<std::string> LayersThatMove(const Program& program, Pass pass) {
  std::set<std::string> layers;
  for (const Task& task : program.tasks) {
    if (Moves(program, task) && task.provenance.pass == pass) layers.insert(task.provenance.layer);
  }
  return layers;
}

TEST(Lower, TwoColumnsOfAlexnet2012MeetAtConv3TheFullyConnectedLayersAndTheLogitsAlone) {
  const layers::LayerGraph graph = Model("alexnet2012");
  const Program program = Lowered(graph, Named("model", graph, 2));
  EXPECT_THAT(LayersThatMove(program, Pass::kForward), UnorderedElementsAre("conv3", "fc6", "fc7", "fc8", "loss"));
  EXPECT_THAT(LayersThatMove(program, Pass::kBackward), UnorderedElementsAre("conv3", "fc6", "fc7", "fc8"));
  EXPECT_THAT(LayersThatMove(program, Pass::kUpdate), ::testing::IsEmpty());
}

TEST(Lower, DataParallelismMovesGradientsAlone) {
  const layers::LayerGraph graph = Model("two_column");
  const Program program = Lowered(graph, Named("data", graph, 4));
  EXPECT_THAT(LayersThatMove(program, Pass::kForward), ::testing::IsEmpty());
  for (const Task& task : program.tasks) {
    if (Moves(program, task)) {
      EXPECT_THAT(task.provenance.layer, HasSubstr("bucket"));
    }
  }
}

TEST(Lower, OneDeviceMovesNothingAndWaitsOnlyForItsInputs) {
  const layers::LayerGraph graph = Model("lenet");
  const Program program = Lowered(graph, Named("single", graph, 1));
  std::vector<std::string> waits;
  const auto words = [&](program::TaskId id) {
    return program::Name(program.task(id)) + " of " + program.task(id).provenance.layer;
  };
  for (const Task& task : program.tasks) {
    EXPECT_FALSE(Moves(program, task));
    for (program::TaskId wait : task.waits) waits.push_back(words(task.id) + " for " + words(wait));
    for (program::TaskId wait : task.waits_previous) {
      waits.push_back(words(task.id) + " for " + words(wait) + " in the step before");
    }
  }
  // Compute waits for what is loaded, the copies for what is computed; loads wait for nothing, so that they may be ahead.
  EXPECT_THAT(waits, ElementsAre("count_labels of loss for load of labels", "copy of images for load of images",
                                 "softmax_cross_entropy_forward of loss for store of loss in the step before",
                                 "check_finite of bucket0 for store of finite in the step before",
                                 "store of loss for softmax_cross_entropy_forward of loss",
                                 "store of finite for check_finite of bucket0"));
}

TEST(Lower, NetworksUnderEveryNamedPlanAreVerifiedAndRoundTrip) {
  for (const char* name : {"lenet", "two_column", "alexnet2012", "alexnet", "resnet20", "googlenet_bn", "resnext50_32x4d"}) {
    const layers::LayerGraph graph = Model(name);
    for (const char* plan_name : {"data", "model", "hybrid", "owt"}) {
      for (int devices : {2, 4}) {
        const Program program = Lowered(graph, Named(plan_name, graph, devices));
        absl::StatusOr<Program> parsed = program::Parse(program::Print(program));
        ASSERT_TRUE(parsed.ok()) << parsed.status();
        EXPECT_TRUE(*parsed == program) << name << " " << plan_name << " " << devices;
      }
    }
  }
}

TEST(Lower, TrainAndEvalShareTheirPersistentBuffers) {
  const layers::LayerGraph graph = Model("two_column");
  for (Reduction reduction : kReductions) {
    Plan plan = Named("hybrid", graph, 4);
    plan.reduction = reduction;
    std::map<std::pair<int, std::string>, program::Shape> train;
    for (const program::Buffer& b : Lowered(graph, plan).buffers) {
      if (b.lifetime == program::Lifetime::kPersistent) train[{b.device, b.name}] = b.shape;
    }
    const Program eval = Lowered(graph, plan, {.mode = program::Mode::kEval});
    int shared = 0;
    for (const program::Buffer& b : eval.buffers) {
      if (b.lifetime != program::Lifetime::kPersistent) continue;
      ++shared;
      ASSERT_TRUE(train.contains({b.device, b.name})) << b.name;
      EXPECT_EQ((train[{b.device, b.name}]), b.shape) << b.name;
    }
    EXPECT_GT(shared, 0);
  }
}

// Each wait between lanes is needed, and Verify sees each one that is missing.
TEST(Lower, EveryDroppedWaitOfTwoColumnUnderHybridIsFound) {
  const layers::LayerGraph graph = Model("two_column");
  const Program program = Lowered(graph, Named("hybrid", graph, 4));
  int dropped = 0;
  for (size_t t = 0; t < program.tasks.size(); ++t) {
    for (size_t w = 0; w < program.tasks[t].waits.size(); ++w) {
      Program broken = program;
      broken.tasks[t].waits.erase(broken.tasks[t].waits.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THAT(std::string(program::Verify(broken).message()), HasSubstr("order")) << "task " << t << " wait " << w;
      ++dropped;
    }
    for (size_t w = 0; w < program.tasks[t].waits_previous.size(); ++w) {
      Program broken = program;
      broken.tasks[t].waits_previous.erase(broken.tasks[t].waits_previous.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THAT(std::string(program::Verify(broken).message()), HasSubstr("order")) << "task " << t << " previous " << w;
      ++dropped;
    }
  }
  EXPECT_GT(dropped, 40);
}

// In lane order alone: by when 80 % of the bytes to be reduced have been handed to the comm lane.
TEST(Lower, MostGradientsAreReducedBeforeBackwardEnds) {
  const layers::LayerGraph graph = Model("alexnet");
  const Program program = Lowered(graph, Named("data", graph, 2));
  size_t last_backward = 0;
  for (size_t t = 0; t < program.tasks.size(); ++t) {
    if (program.tasks[t].provenance.pass == Pass::kBackward && !Moves(program, program.tasks[t])) last_backward = t;
  }
  int64_t all = 0, before = 0;
  for (size_t t = 0; t < program.tasks.size(); ++t) {
    if (!Moves(program, program.tasks[t])) continue;
    all += program.tasks[t].work.bytes_sent;
    if (t < last_backward) before += program.tasks[t].work.bytes_sent;
  }
  EXPECT_GE(static_cast<double>(before), 0.8 * static_cast<double>(all));
}

TEST(Lower, WithoutOverlapEverythingRunsInLineAndReductionsComeAfterBackward) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("data", graph, 2);
  plan.overlap = false;
  plan.reduction = Reduction::kMaster;
  const Program program = Lowered(graph, plan);
  bool reduced = false;
  for (const Task& task : program.tasks) {
    if (Moves(program, task)) {
      EXPECT_EQ(task.lane, program::Lane::kCompute);
      reduced = true;
    } else if (task.provenance.pass == Pass::kBackward) {
      EXPECT_FALSE(reduced) << "a gradient is computed after the first reduction";
    }
  }
  EXPECT_TRUE(reduced);
}

TEST(Lower, ReluIsFusedIntoTheConvolutionThatAloneFeedsIt) {
  const layers::LayerGraph graph = Model("alexnet");
  const Program program = Lowered(graph, Named("single", graph, 1));
  int fused = 0;
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (const auto* conv = std::get_if<program::ConvForward>(&compute->op)) fused += conv->relu;
    EXPECT_FALSE(std::holds_alternative<program::ActivationForward>(compute->op));
  }
  EXPECT_EQ(fused, 5);
}

// The op of a layer in a pass, and its uses' shapes; on one device.
template <class Op>
const Task* TaskOf(const Program& program, const std::string& layer) {
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute != nullptr && std::holds_alternative<Op>(compute->op) && task.provenance.layer == layer) return &task;
  }
  return nullptr;
}

// conv → relu → pool, and a second reader of the ReLU if `is_read_twice`.
layers::LayerGraph PooledRelu(bool is_read_twice) {
  layers::GraphBuilder net("pooled_relu");
  auto x = net.Input("images", {3, 8, 8});
  x = net.Conv2d("conv", x, {.out_channels = 4, .kernel = 3, .pad = 1});
  const auto relu = net.Relu("relu", x);
  const auto pool = net.MaxPool("pool", relu, {.kernel = 2, .stride = 2});
  const auto flat = net.Flatten("flatten", pool);
  auto logits = net.FullyConnected("fc", flat, {.out_features = 10});
  if (is_read_twice) {
    const auto other = net.FullyConnected("fc_of_relu", net.Flatten("flatten_relu", relu), {.out_features = 10});
    logits = net.Add("add", {logits, other});
  }
  net.SoftmaxCrossEntropy("loss", logits);
  absl::StatusOr<layers::LayerGraph> graph = std::move(net).Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(Lower, TheGradientOfAReluThatAPoolingAloneReadsComesFirst) {
  const layers::LayerGraph graph = PooledRelu(/*is_read_twice=*/false);
  for (const char* plan : {"single", "model"}) {
    const int devices = std::string(plan) == "single" ? 1 : 2;
    const Program program = Lowered(graph, Named(plan, graph, devices, 8), {.global_batch = 8});
    const Task *relu = TaskOf<program::ActivationBackward>(program, "relu"),
               *pool = TaskOf<program::MaxPoolBackward>(program, "pool");
    ASSERT_TRUE(relu != nullptr && pool != nullptr);
    EXPECT_LT(relu->id.value, pool->id.value);
    for (const program::BufferUse& use : relu->uses) {
      EXPECT_EQ(program.buffer(use.buffer).shape[2], 4) << "ReLU's gradient is of pooled tensors";
    }
    EXPECT_EQ(relu->uses[0].buffer, TaskOf<program::MaxPoolForward>(program, "pool")->uses[1].buffer);
    EXPECT_EQ(relu->uses[2].buffer, pool->uses[1].buffer);
    EXPECT_EQ(pool->uses[2].buffer, TaskOf<program::ConvBackwardWeights>(program, "conv")->uses[1].buffer);
  }
}

TEST(Lower, TheGradientOfAReluThatOthersReadTooComesAfterTheSum) {
  const layers::LayerGraph graph = PooledRelu(/*is_read_twice=*/true);
  const Program program = Lowered(graph, Named("single", graph, 1, 8), {.global_batch = 8});
  const Task *relu = TaskOf<program::ActivationBackward>(program, "relu"),
             *pool = TaskOf<program::MaxPoolBackward>(program, "pool");
  ASSERT_TRUE(relu != nullptr && pool != nullptr);
  EXPECT_GT(relu->id.value, pool->id.value);
  EXPECT_EQ(program.buffer(relu->uses[0].buffer).shape[2], 8);
}

TEST(Lower, TheMasterAloneHoldsMomentum) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("data", graph, 4);
  plan.reduction = Reduction::kMaster;
  for (const program::Parameter& p : Lowered(graph, plan).parameters) {
    EXPECT_EQ(p.value().size(), 4u);
    EXPECT_EQ(p.pieces(program::StateKind::kMomentum).size(), 1u);
  }
}

TEST(Lower, InBf16ActivationsAreRoundedAndParametersStayF32) {
  const layers::LayerGraph graph = Model("two_column");
  const Program program = Lowered(graph, Named("hybrid", graph, 4), {.dtype = program::DType::kBF16});
  for (const program::Parameter& parameter : program.parameters) {
    for (const program::Piece& piece : parameter.value())
      EXPECT_EQ(program.buffer(piece.buffer).dtype, program::DType::kF32);
  }
  int forwards = 0, sums = 0;
  for (const Task& task : program.tasks) {
    const auto type = [&](size_t use) { return program.buffer(task.uses[use].buffer).dtype; };
    if (const auto* what = std::get_if<program::Collective>(&task.body)) {
      // Gradients are summed in f32.
      if (what->kind == program::CollectiveKind::kAllReduce && task.provenance.pass == Pass::kBackward &&
          task.provenance.layer.starts_with("bucket")) {
        EXPECT_EQ(type(0), program::DType::kF32);
        ++sums;
      }
      continue;
    }
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) continue;
    if (std::holds_alternative<program::ConvForward>(compute->op)) {
      for (size_t use = 0; use < task.uses.size(); ++use) EXPECT_EQ(type(use), program::DType::kBF16);
      ++forwards;
    }
    if (std::holds_alternative<program::ConvBackwardWeights>(compute->op) ||
        std::holds_alternative<program::SoftmaxCrossEntropyForward>(compute->op)) {
      EXPECT_EQ(type(2), program::DType::kF32);
    }
  }
  EXPECT_GT(forwards, 0);
  EXPECT_GT(sums, 0);
  const auto parsed = program::Parse(program::Print(program));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, program);
}

TEST(Lower, InBf16SumsOverDevicesAreInF32AndCountAsMuch) {
  const layers::LayerGraph graph = Model("lenet");
  const Program program = Lowered(graph, Named("model", graph, 2), {.dtype = program::DType::kBF16});
  int sums = 0, summands = 0;
  for (const Task& task : program.tasks) {
    const program::Buffer& last = program.buffer(task.uses.back().buffer);
    if (const auto* what = std::get_if<program::Collective>(&task.body)) {
      if (what->kind != program::CollectiveKind::kReduceScatter) continue;
      EXPECT_EQ(last.dtype, program::DType::kF32) << last.name;
      EXPECT_EQ(task.work.bytes_read, 4 * task.uses[0].region.elements()) << last.name;
      ++sums;
      continue;
    }
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr || !std::holds_alternative<program::FullyConnectedBackwardData>(compute->op)) continue;
    const bool is_split = last.dtype == program::DType::kF32;
    EXPECT_EQ(task.work.bytes_written, (is_split ? 4 : 2) * task.uses[2].region.elements()) << last.name;
    EXPECT_EQ(task.work.bytes_read, 2 * (task.uses[0].region.elements() + task.uses[1].region.elements())) << last.name;
    summands += is_split;
  }
  EXPECT_GT(sums, 0);
  EXPECT_GT(summands, 0);
}

TEST(Lower, InBf16AKernelThatReadsTheF32WeightsIsRefused) {
  const layers::LayerGraph graph = Model("two_column");
  Program program = Lowered(graph, Named("single", graph, 1), {.dtype = program::DType::kBF16});
  std::map<program::BufferId, program::BufferId> master_of;
  for (const Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (std::holds_alternative<program::Copy>(compute->op)) master_of[task.uses[1].buffer] = task.uses[0].buffer;
  }
  for (Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (std::holds_alternative<program::ConvForward>(compute->op)) task.uses[1].buffer = master_of.at(task.uses[1].buffer);
  }
  const absl::Status status = program::Verify(program);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32"));
}

// Of what runs and of what is simulated.
TEST(Lower, ItsProgressEndsAtTheNumberOfPassesThatItTold) {
  const layers::LayerGraph graph = Model("two_column");
  std::vector<std::pair<int, int>> told;
  const LowerOptions options{.global_batch = 8, .progress = [&](int done, int passes) { told.emplace_back(done, passes); }};
  const Plan plan = Named("hybrid", graph, 4);
  const auto expect_all = [&] {
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back().first, told.back().second);
    EXPECT_EQ(told.size(), told.back().second);
    told.clear();
  };
  ASSERT_TRUE(Lower(graph, plan, options).ok());
  expect_all();
  ASSERT_TRUE(LowerRepresentatives(graph, plan, options).ok());
  expect_all();
}

// The list of a thousand devices' tasks never moves to memory of twice the size.
TEST(Lower, MakesRoomForTheTasksOfManyDevicesAtOnce) {
  const layers::LayerGraph graph = Model("lenet");
  for (const char* name : {"data", "hybrid", "owt"}) {
    Plan plan = Named(name, graph, 64, 128);
    plan.reduction = Reduction::kMaster;
    const Program program = Lowered(graph, plan, {.global_batch = 128});
    EXPECT_GE(program.tasks.capacity(), program.tasks.size());
    EXPECT_LE(program.tasks.capacity(), program.tasks.size() + 64) << name;
    EXPECT_LE(program.buffers.capacity(), program.buffers.size() + 64) << name;
  }
}

TEST(Lower, ABatchThatDoesNotSplitAndAWrongTypeAreRefused) {
  const layers::LayerGraph graph = Model("two_column");
  const Plan plan = Named("data", graph, 4);
  EXPECT_EQ(Lower(graph, plan, {.global_batch = 6}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lower(graph, plan, {.dtype = program::DType::kU8}).status().code(), absl::StatusCode::kInvalidArgument);
}

// What tasks of a step come from, where layers have these names.
std::vector<std::string> SourcesWithLayers(const std::vector<std::string>& names) {
  layers::GraphBuilder net("names");
  auto x = net.Conv2d(names[0], net.Input("images", {3, 4, 4}), {.out_channels = 4});
  x = net.Relu(names[2], net.BatchNorm(names[1], x, {.samples_per_group = 2}));
  x = net.FullyConnected(names[4], net.Flatten(names[3], x), {.out_features = 6});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Gelu(names[5], x), {.out_features = 4}));
  const layers::LayerGraph graph = std::move(net).Build().value();
  const program::Program program =
      Lowered(graph, Named("data", graph, 2, 8), {.global_batch = 8, .update = {.clip_norm = 1}});
  std::vector<std::string> sources;
  for (const program::Task& task : program.tasks) sources.push_back(task.provenance.layer);
  return sources;
}

TEST(Lower, WhatIsNoLayerHasTheNameOfNone) {
  const std::vector<std::string> others = {"a", "b", "c", "d", "e", "f"},
                                 taken = {"bucket0", "statistics0", "gate", "scalars", "finite", "labels"};
  std::map<std::string, std::string> names;  // in the step of `taken`, of what has this name in the other
  for (size_t i = 0; i < taken.size(); ++i) {
    names[others[i]] = taken[i];
    names[taken[i]] = taken[i] + "@";
  }
  std::vector<std::string> expected = SourcesWithLayers(others);
  for (const std::string& name : taken) EXPECT_THAT(expected, ::testing::Contains(name));
  for (std::string& source : expected) {
    if (const auto name = names.find(source); name != names.end()) source = name->second;
  }
  EXPECT_EQ(SourcesWithLayers(taken), expected);
}

}  // namespace
}  // namespace colonnade::partition
