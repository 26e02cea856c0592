// Tensors that are split by sections, as the output of a concatenation under columns is: how they move, and what becomes of
// inception modules.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/emit_case.h"
#include "tests/partition/lowered.h"
#include "tests/partition/random_run.h"

namespace colonnade::partition {
namespace {

using layers::Placement;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Placement kSections = Placement::SplitSections({4, 8});

// x [8,12] on two columns, of 4 + 8 channels.
std::vector<std::string> TasksThatMove(ReshardKind kind, const Placement& from, const Placement& to) {
  const ReshardCase c(1, 2, Entry(1, kind, from, to), {kR, from}, {kR, to}, program::DType::kF32, {8, 12});
  return TasksOf(Emitted(c), "fc1");
}

TEST(EmitSections, AnAllGatherOfTwoJoinsEachSectionInItsPlace) {
  EXPECT_THAT(TasksThatMove(ReshardKind::kAllGather, kSections, kR),
              ElementsAre("d0 copy copy read x[0:8,0:2] write y[0:8,0:2]: 64 64 0",
                          "d1 copy copy read x[0:8,0:2] write y[0:8,2:4]: 64 64 0",
                          "d0 comm exchange read x[0:8,0:2] write y[0:8,2:4]: 64 64 64",
                          "d1 comm exchange read x[0:8,0:2] write y[0:8,0:2]: 64 64 64",
                          "d0 copy copy read x[0:8,2:6] write y[0:8,4:8]: 128 128 0",
                          "d1 copy copy read x[0:8,2:6] write y[0:8,8:12]: 128 128 0",
                          "d0 comm exchange read x[0:8,2:6] write y[0:8,8:12]: 128 128 128",
                          "d1 comm exchange read x[0:8,2:6] write y[0:8,4:8]: 128 128 128"));
}

TEST(EmitSections, AReduceScatterSumsEachSectionAlone) {
  EXPECT_THAT(TasksThatMove(ReshardKind::kReduceScatter, kP, kSections),
              ElementsAre("d0 comm reduce_scatter read x[0:8,0:4] write y[0:8,0:2]: 128 64 64",
                          "d1 comm reduce_scatter read x[0:8,0:4] write y[0:8,0:2]: 128 64 64",
                          "d0 comm reduce_scatter read x[0:8,4:12] write y[0:8,2:6]: 256 128 128",
                          "d1 comm reduce_scatter read x[0:8,4:12] write y[0:8,2:6]: 256 128 128"));
}

TEST(EmitSections, ASliceTakesItsPartOfEachSection) {
  EXPECT_THAT(TasksThatMove(ReshardKind::kSlice, kR, kSections),
              ElementsAre("d0 compute copy read x[0:8,0:2] write y[0:8,0:2]: 64 64 0",
                          "d1 compute copy read x[0:8,2:4] write y[0:8,0:2]: 64 64 0",
                          "d0 compute copy read x[0:8,4:8] write y[0:8,2:6]: 128 128 0",
                          "d1 compute copy read x[0:8,8:12] write y[0:8,2:6]: 128 128 0"));
}

TEST(EmitSections, AnAllToAllTurnsEachSection) {
  EXPECT_THAT(TasksThatMove(ReshardKind::kAllToAll, kS0, kSections),
              ElementsAre("d0 comm all_to_all read x[0:4,0:4] write y[0:8,0:2]: 64 64 32",
                          "d1 comm all_to_all read x[0:4,0:4] write y[0:8,0:2]: 64 64 32",
                          "d0 comm all_to_all read x[0:4,4:12] write y[0:8,2:6]: 128 128 64",
                          "d1 comm all_to_all read x[0:4,4:12] write y[0:8,2:6]: 128 128 64"));
}

// The second axis cuts sections of what the first has left of them.
TEST(EmitSections, AxesComposeWithinTheSections) {
  const Placement halves = Placement::SplitSections({2, 4});
  const ReshardCase c(2, 2, Entry(1, ReshardKind::kSlice, kR, halves), {kSections, kR}, {kSections, halves},
                      program::DType::kF32, {8, 12});
  EXPECT_THAT(TasksOf(Emitted(c), "fc1"), Contains("d3 compute copy read x[0:8,4:6] write y[0:8,1:3]: 64 64 0"));
}

// images [4,6,6] → module a → module b → fc → loss. A module joins two convolutions, of 4 and of `second` channels, with
// their ReLUs.
layers::LayerGraph Modules(int64_t second = 8) {
  layers::GraphBuilder net("modules");
  auto x = net.Input("images", {4, 6, 6});
  for (const std::string module : {"a", "b"}) {
    const auto branch = [&](const std::string& name, int64_t channels) {
      return net.Relu(name + ".relu", net.Conv2d(name, x, {.out_channels = channels, .kernel = 3, .pad = 1}));
    };
    const auto first = branch(module + "1", 4), other = branch(module + "2", second);
    x = net.Concat(module, {first, other});
  }
  x = net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4});
  net.SoftmaxCrossEntropy("loss", x);
  return Built(std::move(net));
}

// Where the passes before resharding put each value, by its name.
std::map<std::string, std::string> PlacementsOf(const layers::LayerGraph& graph, const Plan& plan) {
  LoweringCase c(graph, plan);
  for (auto* pass : {&ExpandStages, &AdvanceMasks, &ExpandShards}) {
    const absl::Status status = pass(c.lowering);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::map<std::string, std::string> placements;
  for (const Value& value : c.lowering.values) placements[value.name] = Letters(value.placement);
  return placements;
}

// The reshardings of what module `a` makes and of the gradients of it and within it.
std::vector<std::string> MovesOfFirstModule(const Plan& plan) {
  LoweringCase c(Modules(), plan);
  for (auto* pass : {&ExpandStages, &AdvanceMasks, &ExpandShards, &InsertResharding}) {
    const absl::Status status = pass(c.lowering);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<std::string> moves;
  for (const Action& action : c.lowering.actions) {
    if (!std::holds_alternative<Reshard>(action.body)) continue;
    if (c.lowering.value(action.inputs[0].value).name.starts_with("a")) moves.push_back(Words(c.lowering, action));
  }
  return moves;
}

// Both convolutions behind it share one gather, and their gradients are added before their sum is scattered: none is reduced
// whole, and the branches within the module move nothing.
TEST(Modules, OnColumnsGatherOnceWhatIsJoinedAndScatterTheSumOfItsGradients) {
  EXPECT_THAT(MovesOfFirstModule(Named("model", Modules(), 2, 8)),
              ElementsAre("all_gather/1 b1: a.y(R,S1:4+8) -> a.y@(replicated, replicated)(R,R)",
                          "reduce_scatter/1 a: a.dy(R,P) -> a.dy@(replicated, split(1: 4+8))(R,S1:4+8)"));
  EXPECT_THAT(MovesOfFirstModule(Named("hybrid", Modules(), 4, 8)),
              ElementsAre("all_gather/1 b1: a.y(S0,S1:4+8) -> a.y@(split(0), replicated)(S0,R)",
                          "reduce_scatter/1 a: a.dy(S0,P) -> a.dy@(split(0), split(1: 4+8))(S0,S1:4+8)"));
}

TEST(Modules, UnderNamedPlansStaySplitUntilALayerNeedsThemWhole) {
  const Plan plan = Named("model", Modules(), 2, 8);
  EXPECT_THAT(plan.layers.at("a"), ElementsAre(kReplicate, kGroup));
  EXPECT_THAT(plan.layers.at("flatten"), ElementsAre(kReplicate, kReplicate));
  EXPECT_THAT(plan.notes, IsEmpty());
}

// 6 channels are not cut in four: that branch is replicated, and so is what joins it with others.
TEST(Modules, AreReplicatedWhereABranchIs) {
  const Plan plan = Named("model", Modules(6), 4, 8);
  EXPECT_THAT(plan.layers.at("a1"), ElementsAre(kReplicate, kColumn));
  EXPECT_THAT(plan.layers.at("a2"), ElementsAre(kReplicate, kReplicate));
  EXPECT_THAT(plan.layers.at("a"), ElementsAre(kReplicate, kReplicate));
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("\"a2\""), HasSubstr("\"b2\""))) << "it is not tried otherwise";
}

// Columns of both axes cut the channels: sections of what the first has left of them.
TEST(Modules, OnTwoAxesOfColumnsComputeWhatOneDeviceDoes) {
  const layers::LayerGraph graph = Modules();
  Random random(3);
  const RandomNetwork network{graph, 4};
  const Batch batch = DrawBatch(random, network, 8, /*exact=*/false);
  const BackendMaker reference = [](int devices) {
    return cpu::MakeCpuBackend(
        {.devices = devices, .threads_per_device = 1, .kernels = cpu::CpuOptions::Kernels::kReference});
  };
  const LowerOptions options{.global_batch = 8, .dtype = program::DType::kF64, .expose_gradients = true};
  const std::vector<layers::Strategy> columns = {kColumn, kColumn}, groups = {kGroup, kGroup};
  std::map<std::string, std::vector<layers::Strategy>> split;
  for (const char* conv : {"a1", "a2", "b1", "b2"}) split[conv] = columns, split[absl::StrCat(conv, ".relu")] = groups;
  split["a"] = split["b"] = groups;
  const Plan plan = PlanOf(graph, 2, 2, {kReplicate, kReplicate}, split);
  EXPECT_EQ(PlacementsOf(graph, plan)["a.y"], "S1:4+8,S1:2+4");
  Tensors parameters;
  const absl::StatusOr<Result> one =
      RunSteps(graph, SinglePlan(graph), options, reference, batch, nullptr, random, /*exact=*/false, 2, &parameters);
  const absl::StatusOr<Result> four =
      RunSteps(graph, plan, options, reference, batch, &parameters, random, /*exact=*/false, 2, nullptr);
  ASSERT_TRUE(one.ok() && four.ok()) << one.status() << four.status();
  ASSERT_FALSE(one->gradients.empty());
  for (const auto& [name, values] : one->gradients) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(four->gradients.at(name)[i], values[i], 1e-12) << name;
  }
  EXPECT_NEAR(four->losses[1], one->losses[1], 1e-12);
}

}  // namespace
}  // namespace colonnade::partition
