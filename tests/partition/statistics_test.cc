// What lowering makes of layers with statistics and of joins: state, sums over devices, and what costs nothing.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/op.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Program;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// images [4,6,6] → conv [8,6,6] → norm → relu → flatten → fc → loss
layers::LayerGraph Normalised(int64_t samples_per_group = 0) {
  layers::GraphBuilder net("normalised");
  auto x = net.Conv2d("conv", net.Input("images", {4, 6, 6}), {.out_channels = 8, .kernel = 3, .pad = 1, .bias = false});
  x = net.Relu("relu", net.BatchNorm("norm", x, {.samples_per_group = samples_per_group}));
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return Built(std::move(net));
}

Program LoweredUnder(const layers::LayerGraph& graph, const std::string& plan_name, int devices, LowerOptions options) {
  absl::StatusOr<Plan> plan = NamedPlan(plan_name, graph, {.devices = devices, .global_batch = options.global_batch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  absl::StatusOr<Program> program = Lower(graph, *plan, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program{};
}

// "batch_norm_sums", "all_reduce" …: what device 0 does for layer `name`, in order.
std::vector<std::string> DoneFor(const Program& program, const std::string& name) {
  std::vector<std::string> done;
  for (const program::Task& task : program.tasks) {
    if (task.device != 0 || task.provenance.layer != name) continue;
    const auto* compute = std::get_if<program::Compute>(&task.body);
    done.push_back(compute != nullptr ? program::Name(compute->op) : "transfer");
  }
  return done;
}

int CountOf(const Program& program, const std::string& op) {
  int count = 0;
  for (const program::Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    count += compute != nullptr && program::Name(compute->op) == op ? 1 : 0;
  }
  return count;
}

TEST(Statistics, AreStateBehindTheTrainedParametersInTrainingAndEvaluation) {
  const layers::LayerGraph graph = Normalised();
  std::set<std::pair<int, std::string>> held[2];
  for (const program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
    const Program program = LoweredUnder(graph, "data", 2, {.mode = mode, .global_batch = 8});
    std::vector<std::string> names;
    for (const program::Parameter& p : program.parameters) {
      names.push_back(p.name);
      if (p.role == program::StateRole::kTrained) continue;
      EXPECT_THAT(p.pieces(program::StateKind::kMomentum), IsEmpty());
      EXPECT_EQ(p.layer, "norm");
      ASSERT_EQ(p.value().size(), 2u);
      for (const program::Piece& piece : p.value()) {
        const program::Buffer& buffer = program.buffer(piece.buffer);
        EXPECT_EQ(buffer.lifetime, program::Lifetime::kPersistent);
        held[mode == program::Mode::kEval].emplace(buffer.device, buffer.name);
      }
    }
    EXPECT_THAT(names, ElementsAre("conv.weight", "norm.weight", "norm.bias", "fc.weight", "fc.bias", "norm.running_mean",
                                   "norm.running_var"));
    EXPECT_EQ(program::TrainedCount(program), 5);
  }
  EXPECT_EQ(held[0], held[1]) << "evaluation finds what training left, by device and name";
}

TEST(Statistics, AreCutAsTheirChannels) {
  const Program program = LoweredUnder(Normalised(), "model", 2, {.global_batch = 8});
  const program::Parameter& mean = program.parameters[5];
  EXPECT_EQ(mean.name, "norm.running_mean");
  EXPECT_THAT(mean.value(), ElementsAre(::testing::Field(&program::Piece::region, program::Region{{0}, {4}}),
                                        ::testing::Field(&program::Piece::region, program::Region{{4}, {4}})));
  EXPECT_THAT(DoneFor(program, "norm"), ElementsAre("batch_norm_sums", "batch_norm_forward", "batch_norm_backward_sums",
                                                    "batch_norm_backward", "batch_norm_track"))
      << "each device has all samples of its channels";
}

TEST(Statistics, AreSummedOverTheDevicesOfABatchOnceInEachDirection) {
  EXPECT_THAT(DoneFor(LoweredUnder(Normalised(), "data", 2, {.global_batch = 8}), "norm"),
              ElementsAre("batch_norm_sums", "transfer", "batch_norm_forward", "batch_norm_backward_sums", "transfer",
                          "batch_norm_backward", "batch_norm_track"));
}

TEST(Statistics, OfGroupsThatADeviceHoldsWholeAreSummedForTheRunningOnesAlone) {
  const Program program = LoweredUnder(Normalised(2), "data", 2, {.global_batch = 8});
  EXPECT_THAT(DoneFor(program, "norm"), ElementsAre("batch_norm_sums", "batch_norm_forward", "batch_norm_backward_sums",
                                                    "batch_norm_backward", "batch_norm_track"));
  EXPECT_THAT(DoneFor(program, "statistics0"), ElementsAre("transfer"));
}

TEST(Statistics, OfGroupsAreSummedByOneTransferForAllLayers) {
  const layers::LayerGraph graph = *models::BuildModel("resnet20", {.width = 0.25, .samples_per_group = 2});
  const Program program = LoweredUnder(graph, "data", 2, {.global_batch = 8});
  int transfers = 0;
  for (const program::Task& task : program.tasks) {
    if (!std::holds_alternative<program::Collective>(task.body) || task.device != 0) continue;
    const auto* bucket = std::get_if<program::Bucket>(&program.buffer(task.uses[0].buffer).storage);
    if (bucket == nullptr || program.buffer(task.uses[0].buffer).dtype != program::DType::kF64) continue;
    ++transfers;
    int64_t bytes = 0;
    for (program::BufferId member : bucket->members) {
      bytes += program::ElementCount(program.buffer(member).shape) * program::SizeInBytes(program::DType::kF64);
    }
    EXPECT_EQ(bucket->members.size(), 19u);
    EXPECT_EQ(task.work, (program::Work{.bytes_read = bytes, .bytes_written = bytes, .bytes_sent = bytes}));
  }
  EXPECT_EQ(transfers, 1);
}

TEST(Statistics, OfGroupsThatDoNotDivideTheBatchAreRefused) {
  const layers::LayerGraph graph = Normalised(3);
  const absl::Status status = NamedPlan("single", graph, {.devices = 1, .global_batch = 8}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"\"norm\"", "batch of 8", "groups of 3 samples", "6 or 9"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(Statistics, OfGroupsThatTheDevicesDoNotDivideAreRefused) {
  const layers::LayerGraph graph = Normalised(4);
  const Plan plan = PlanOf(graph, 4, 1, {kBatch, kReplicate});
  const absl::Status status = ShardGraph(graph, plan, 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs groups of 4 samples divisible by 4"));
}

TEST(Statistics, EvaluationFoldsTheRunningOnesIntoTheProductBefore) {
  for (int64_t samples_per_group : {0, 2}) {
    const layers::LayerGraph graph = Normalised(samples_per_group);
    for (const char* plan : {"data", "model"}) {
      const Program program = LoweredUnder(graph, plan, 2, {.mode = program::Mode::kEval, .global_batch = 8});
      EXPECT_THAT(DoneFor(program, "norm"), ElementsAre("batch_norm_fold"));
      EXPECT_THAT(DoneFor(program, "conv"), ElementsAre("conv_forward"));
    }
  }
}

// Folding multiplies more weights, 288, than there are elements to normalise, 144; in bf16 weights are rounded anyway.
TEST(Statistics, EvaluationReadsTheRunningOnesWhereFoldingCostsMore) {
  layers::GraphBuilder net("few");
  const auto x = net.Conv2d("conv", net.Input("images", {4, 6, 6}), {.out_channels = 8, .kernel = 3, .stride = 2, .pad = 1});
  net.SoftmaxCrossEntropy(
      "loss", net.FullyConnected("fc", net.Flatten("flatten", net.BatchNorm("norm", x, {})), {.out_features = 4}));
  const layers::LayerGraph graph = Built(std::move(net));
  LowerOptions options{.mode = program::Mode::kEval, .global_batch = 2};
  EXPECT_THAT(DoneFor(LoweredUnder(graph, "single", 1, options), "norm"),
              ElementsAre("batch_norm_recall", "batch_norm_forward"));
  options.dtype = program::DType::kBF16;
  EXPECT_THAT(DoneFor(LoweredUnder(graph, "single", 1, options), "norm"), ElementsAre("batch_norm_fold"));
  EXPECT_THAT(DoneFor(LoweredUnder(graph, "single", 1, options), "conv"), ElementsAre("conv_forward")) << "rounds nothing";
}

TEST(Statistics, ParametersOfANormalisationStayInTheMasterType) {
  const Program program = LoweredUnder(Normalised(), "single", 1, {.global_batch = 8, .dtype = program::DType::kBF16});
  std::set<std::string> rounded;
  for (const program::Buffer& buffer : program.buffers) {
    if (absl::EndsWith(buffer.name, ".bf16")) rounded.insert(buffer.name);
  }
  EXPECT_THAT(rounded, ElementsAre("conv.weight.bf16", "fc.bias.bf16", "fc.weight.bf16"));
}

TEST(Statistics, AReluBehindANormalisationIsFusedIntoIt) {
  for (const program::Mode mode : {program::Mode::kTrain, program::Mode::kEval}) {
    EXPECT_EQ(CountOf(LoweredUnder(Normalised(), "single", 1, {.mode = mode, .global_batch = 8}), "relu_forward"), 0);
  }
}

// Backward has two stages here: the first makes the weight's gradient, the second still reads the weight.
TEST(Statistics, AnUpdateWaitsForTheLastStageThatReadsItsParameters) {
  const layers::LayerGraph graph = Normalised();
  Plan plan = *NamedPlan("single", graph, {.devices = 1, .global_batch = 8});
  plan.bucket_bytes = 1;
  const Program program = *Lower(graph, plan, {.global_batch = 8});
  const auto weight = std::find_if(program.parameters.begin(), program.parameters.end(),
                                   [](const program::Parameter& p) { return p.name == "norm.weight"; });
  const program::BufferId bucket = program::RootOf(program, weight->value()[0].buffer);
  int last_reader = -1, update = -1;
  for (const program::Task& task : program.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) continue;
    const int at = task.id.value;
    if (std::holds_alternative<program::BatchNormBackward>(compute->op)) last_reader = at;
    const bool updates = std::holds_alternative<program::SgdUpdate>(compute->op);
    if (updates && program::RootOf(program, task.uses[3].buffer) == bucket) update = at;
  }
  EXPECT_GE(last_reader, 0);
  EXPECT_GT(update, last_reader);
}

TEST(Joins, AResidualNetworkCopiesNothingButImagesAndItsFlatten) {
  const layers::LayerGraph graph = *models::BuildModel("resnet50", {.input_size = 32, .classes = 4, .width = 0.125});
  const Program program = LoweredUnder(graph, "single", 1, {.global_batch = 2});
  EXPECT_EQ(CountOf(program, "copy"), 3) << "images from where they were loaded to, and flatten, forward and backward";
}

}  // namespace
}  // namespace colonnade::partition
