// EmitTasks: what becomes of one resharding, and of a bucket, on every device.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/emit_case.h"
#include "tests/partition/lowered.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using program::Program;
using program::Task;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(EmitReshard, AnAllGatherOfTwoIsACopyAndAnExchange) {
  const ReshardCase c(1, 2, Entry(1, ReshardKind::kAllGather, kS1, kR), {kR, kS1}, {kR, kR});
  EXPECT_THAT(TasksOf(Emitted(c), "fc1"),
              ElementsAre("d0 copy copy read x write y[0:8,0:2]: 64 64 0", "d1 copy copy read x write y[0:8,2:4]: 64 64 0",
                          "d0 comm exchange read x write y[0:8,2:4]: 64 64 64",
                          "d1 comm exchange read x write y[0:8,0:2]: 64 64 64"));
}

TEST(EmitReshard, BytesAreThoseOfTheElementType) {
  const ReshardCase c(1, 2, Entry(1, ReshardKind::kAllGather, kS0, kR), {kR, kS0}, {kR, kR}, program::DType::kBF16);
  const std::vector<std::string> tasks = TasksOf(Emitted(c), "fc1");
  ASSERT_EQ(tasks.size(), 4);
  EXPECT_EQ(tasks[2], "d0 comm exchange read x write y[4:8,0:4]: 32 32 32");
}

TEST(EmitReshard, WithoutOverlapTransfersAndCopiesAreInLineWithCompute) {
  ReshardCase c(1, 2, Entry(1, ReshardKind::kAllGather, kS0, kR), {kR, kS0}, {kR, kR});
  c.plan.overlap = false;
  const Program program = Emitted(c);
  for (const Task& task : program.tasks) {
    if (task.provenance.layer == "fc1") {
      EXPECT_EQ(task.lane, program::Lane::kCompute) << Words(program, task);
    }
  }
}

// Columns meet with those of their own replica; device_order says which devices they are.
TEST(EmitReshard, ACollectiveIsOneForEachGroupOfTheAxis) {
  ReshardCase c(2, 2, Entry(1, ReshardKind::kAllToAll, kS1, kS0), {kS0, kS1}, {kS0, kS0});
  c.plan.device_order = {3, 1, 0, 2};
  const Program program = Emitted(c);
  EXPECT_THAT(program.groups, ElementsAre(ElementsAre(3, 1), ElementsAre(0, 2)));
  EXPECT_THAT(TasksOf(program, "fc1"),
              ElementsAre("d3 comm all_to_all read x write y: 32 32 16", "d1 comm all_to_all read x write y: 32 32 16",
                          "d0 comm all_to_all read x write y: 32 32 16", "d2 comm all_to_all read x write y: 32 32 16"));
  const auto& what = std::get<program::Collective>(FirstOf(program, "fc1").body);
  EXPECT_EQ(what.dim_from, 0);
  EXPECT_EQ(what.dim_to, 1);
}

TEST(EmitReshard, AnAllGatherOfFourSendsItsPartToTheOtherThree) {
  const ReshardCase c(1, 4, Entry(1, ReshardKind::kAllGather, kS1, kR), {kR, kS1}, {kR, kR});
  const Program program = Emitted(c);
  std::vector<std::string> expected;
  for (int d = 0; d < 4; ++d) expected.push_back(absl::StrCat("d", d, " comm all_gather read x write y: 32 128 96"));
  EXPECT_THAT(TasksOf(program, "fc1"), ElementsAreArray(expected));
  EXPECT_EQ(std::get<program::Collective>(FirstOf(program, "fc1").body).dim_to, 1);
}

TEST(EmitReshard, AReduceScatterReadsItsOperandWhole) {
  const ReshardCase c(1, 4, Entry(1, ReshardKind::kReduceScatter, kP, kS0), {kR, kP}, {kR, kS0});
  const Program program = Emitted(c);
  std::vector<std::string> expected;
  for (int d = 0; d < 4; ++d) expected.push_back(absl::StrCat("d", d, " comm reduce_scatter read x write y: 128 32 96"));
  EXPECT_THAT(TasksOf(program, "fc1"), ElementsAreArray(expected));
  EXPECT_EQ(std::get<program::Collective>(FirstOf(program, "fc1").body).dim_to, 0);
}

TEST(EmitReshard, AnAllReduceIsInPlace) {
  const ReshardCase c(1, 2, Entry(1, ReshardKind::kAllReduce, kP, kR), {kR, kP}, {kR, kR});
  EXPECT_THAT(TasksOf(Emitted(c), "fc1"),
              ElementsAre("d0 comm all_reduce accumulate x: 128 128 128", "d1 comm all_reduce accumulate x: 128 128 128"));
}

// The second axis cuts within the rows of the first: the box is counted from what the device holds.
TEST(EmitReshard, ASliceIsABoxOfWhatTheDeviceHolds) {
  const ReshardCase c(2, 2, Entry(1, ReshardKind::kSlice, kR, kS0), {kS0, kR}, {kS0, kS0});
  EXPECT_THAT(
      TasksOf(Emitted(c), "fc1"),
      ElementsAre("d0 compute copy read x[0:2,0:4] write y: 32 32 0", "d1 compute copy read x[2:4,0:4] write y: 32 32 0",
                  "d2 compute copy read x[0:2,0:4] write y: 32 32 0", "d3 compute copy read x[2:4,0:4] write y: 32 32 0"));
}

TEST(EmitReshard, APieceOfAnInputIsWhatTheDeviceLoads) {
  const ReshardCase c(2, 2, Entry(1, ReshardKind::kSlice, kR, kS0), {kS0, kR}, {kS0, kS0});
  const Program program = Emitted(c);
  std::vector<std::string> pieces;
  for (const program::Piece& piece : program.inputs[0].pieces) {
    pieces.push_back(absl::StrCat("d", program.buffer(piece.buffer).device, program::ToString(piece.region)));
  }
  EXPECT_THAT(pieces, ElementsAre("d0[0:4,0:4]", "d1[0:4,0:4]", "d2[4:8,0:4]", "d3[4:8,0:4]"));
  EXPECT_EQ(TasksOf(program, "images")[0], "d0 load load write x.host: 64 64 0");
}

// fc1 of two replicas: a weight [6,4] and a bias [6], 120 bytes in one bucket.
struct BucketCase : LoweringCase {
  explicit BucketCase(Reduction reduction, LowerOptions of_options = {.global_batch = 8})
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 2, 1, {kBatch, kReplicate}), of_options) {
    plan.reduction = reduction;
    const int fc1 = Node("fc1");
    for (const layers::ParameterSpec& spec : graph.nodes[fc1].parameters) {
      const int member = static_cast<int>(lowering.parameters.size());
      lowering.parameters.push_back({.spec = spec,
                                     .node = fc1,
                                     .index = member,
                                     .placement = {kR, kR},
                                     .gradient = {kP, kR},
                                     .bucket = 0,
                                     .member = member});
    }
    lowering.buckets.push_back({.name = "bucket0", .parameters = {0, 1}, .axes = {0}});
    Act(CheckGradients{0}, "check", Pass::kUpdate, {}, {});
    Act(ReduceGradients{0}, "reduce", Pass::kUpdate, {}, {});
    Act(UpdateParameters{0}, "update", Pass::kUpdate, {}, {});
    Act(GatherParameters{0}, "gather", Pass::kUpdate, {}, {});
  }
};

TEST(EmitBuckets, OneTaskChecksAllGradientsOfADevice) {
  EXPECT_THAT(TasksOf(Emitted(BucketCase(Reduction::kAllReduce)), "check"),
              ElementsAre("d0 compute check_finite read fc1.weight.gradient write finite[0:1] "
                          "read fc1.bias.gradient write finite[1:2]: 120 8 0",
                          "d1 compute check_finite read fc1.weight.gradient write finite[0:1] "
                          "read fc1.bias.gradient write finite[1:2]: 120 8 0"));
}

TEST(EmitBuckets, AnAllReduceLeavesTheSumEverywhereAndAllUpdate) {
  const Program program = Emitted(BucketCase(Reduction::kAllReduce));
  EXPECT_THAT(TasksOf(program, "reduce"), ElementsAre("d0 comm all_reduce accumulate bucket0.gradient: 120 120 120",
                                                      "d1 comm all_reduce accumulate bucket0.gradient: 120 120 120"));
  EXPECT_THAT(TasksOf(program, "update"),
              ElementsAre("d0 compute sgd_update read scalars read bucket0.gradient accumulate bucket0.momentum "
                          "accumulate bucket0: 384 240 0",
                          "d1 compute sgd_update read scalars read bucket0.gradient accumulate bucket0.momentum "
                          "accumulate bucket0: 384 240 0"));
}

// Two parts of 60 bytes.
TEST(EmitBuckets, AShardedBucketIsScatteredUpdatedByPartsAndGathered) {
  const Program program = Emitted(BucketCase(Reduction::kSharded));
  EXPECT_THAT(TasksOf(program, "reduce"),
              ElementsAre("d0 comm reduce_scatter read bucket0.gradient write bucket0.gradient[0:1]: 120 120 60",
                          "d1 comm reduce_scatter read bucket0.gradient write bucket0.gradient[1:2]: 120 120 60"));
  EXPECT_THAT(TasksOf(program, "update"),
              ElementsAre("d0 compute sgd_update read scalars read bucket0.gradient[0:1] accumulate bucket0.momentum[0:1] "
                          "accumulate bucket0[0:1]: 204 120 0",
                          "d1 compute sgd_update read scalars read bucket0.gradient[1:2] accumulate bucket0.momentum[1:2] "
                          "accumulate bucket0[1:2]: 204 120 0"));
  EXPECT_THAT(TasksOf(program, "gather"), ElementsAre("d0 comm all_gather read bucket0[0:1] write bucket0: 120 120 60",
                                                      "d1 comm all_gather read bucket0[1:2] write bucket0: 120 120 60"));
}

TEST(EmitBuckets, AMasterAloneUpdatesAndSendsTheResult) {
  const Program program = Emitted(BucketCase(Reduction::kMaster));
  EXPECT_THAT(TasksOf(program, "reduce"), ElementsAre("d0 comm reduce accumulate bucket0.gradient: 120 120 0",
                                                      "d1 comm reduce read bucket0.gradient: 120 120 120"));
  EXPECT_THAT(TasksOf(program, "update"),
              ElementsAre("d0 compute sgd_update read scalars read bucket0.gradient accumulate bucket0.momentum "
                          "accumulate bucket0: 384 240 0"));
  EXPECT_THAT(TasksOf(program, "gather"),
              ElementsAre("d0 comm broadcast read bucket0: 120 120 120", "d1 comm broadcast write bucket0: 120 120 0"));
}

// Two parts of 60 bytes; what is updated is all of the bucket.
TEST(EmitBuckets, AReductionMovesItsPartOfTheBucket) {
  for (Reduction reduction : {Reduction::kAllReduce, Reduction::kMaster}) {
    BucketCase c(reduction);
    c.lowering.buckets[0].reduction_parts = 2;
    c.Act(ReduceGradients{0, 1}, "reduce 1", Pass::kUpdate, {}, {});
    const Program program = Emitted(c);
    const bool all = reduction == Reduction::kAllReduce;
    EXPECT_EQ(TasksOf(program, "reduce")[0], all ? "d0 comm all_reduce accumulate bucket0.gradient[0:1]: 60 60 60"
                                                 : "d0 comm reduce accumulate bucket0.gradient[0:1]: 60 60 0");
    EXPECT_EQ(TasksOf(program, "reduce 1")[1], all ? "d1 comm all_reduce accumulate bucket0.gradient[1:2]: 60 60 60"
                                                   : "d1 comm reduce read bucket0.gradient[1:2]: 60 60 60");
    EXPECT_EQ(TasksOf(program, "update")[0],
              "d0 compute sgd_update read scalars read bucket0.gradient accumulate bucket0.momentum accumulate bucket0: 384 "
              "240 0");
    if (!all) {
      EXPECT_EQ(TasksOf(program, "gather")[1], "d1 comm broadcast write bucket0: 120 120 0");
    }
  }
}

// The master of a parameter is a member of its bucket; a copy of it is a buffer of its own.
TEST(EmitBuckets, KernelsReadParametersRoundedToTheirType) {
  BucketCase c(Reduction::kAllReduce, {.global_batch = 8, .dtype = program::DType::kBF16});
  c.lowering.actions.clear();
  const ValueId x = c.Add("x", {8, 4}, {kS0, kR}), y = c.Add("y", {8, 6}, {kS0, kR});
  c.lowering.values[x.value].role = HostInputPart{};
  c.Act(LoadInput{}, "images", Pass::kInput, {}, {x});
  std::vector<SlotValue> of_fc1 = {{X(), x, {kS0, kR}}, {Y(), y}};
  for (const SlotValue& master : c.ParametersOf("fc1", /*gradients=*/false)) {
    const Value& of = c.lowering.value(master.value);
    const ValueId rounded = c.Add(absl::StrCat(of.name, ".bf16"), of.shape, {kR, kR});
    c.Act(Round{}, "fc1", Pass::kForward, {{master.value, {kR, kR}}}, {rounded});
    of_fc1.push_back({master.slot, rounded, {kR, kR}});
  }
  for (Value& value : c.lowering.values) {
    value.dtype = value.in_master_type ? program::DType::kF32 : program::DType::kBF16;
  }
  c.ForwardOf("fc1", of_fc1);
  const std::vector<std::string> tasks = TasksOf(Emitted(c), "fc1");
  ASSERT_EQ(tasks.size(), 6);  // of two devices
  EXPECT_EQ(tasks[0], "d0 compute copy read fc1.weight write fc1.weight.bf16: 96 48 0");
  EXPECT_EQ(tasks[2], "d0 compute copy read fc1.bias write fc1.bias.bf16: 24 12 0");
  EXPECT_THAT(tasks[4], ::testing::StartsWith("d0 compute fully_connected_forward read x read fc1.weight.bf16 read "
                                              "fc1.bias.bf16 write y:"));
}

// A stage's parameters and their gradients are the members of buckets, at their places.
TEST(EmitBuckets, StagesReadParametersAndMakeGradientsInTheirBuckets) {
  BucketCase c(Reduction::kAllReduce);
  c.lowering.actions.clear();
  const ValueId x = c.Add("x", {8, 4}, {kS0, kR}), dy = c.Add("dy", {8, 6}, {kS0, kR});
  for (ValueId given : {x, dy}) {
    c.lowering.values[given.value].role = HostInputPart{};
    c.Act(LoadInput{}, "images", Pass::kInput, {}, {given});
  }
  std::vector<SlotValue> to_weights = {{X(), x, {kS0, kR}}, {D(Y()), dy, {kS0, kR}}};
  for (const SlotValue& gradient : c.ParametersOf("fc1", /*gradients=*/true)) to_weights.push_back(gradient);
  c.BackwardOf("fc1", to_weights);
  c.BackwardOf(
      "fc1",
      {c.ParametersOf("fc1", /*gradients=*/false)[0], {D(Y()), dy, {kS0, kR}}, {D(X()), c.Add("dx", {8, 4}, {kS0, kR})}});
  for (Value& value : c.lowering.values) value.dtype = program::DType::kF32;
  const Program program = Emitted(c);
  EXPECT_EQ(TasksOf(program, "fc1")[0],
            "d0 compute fully_connected_backward_weights read x read dy write fc1.weight.gradient "
            "write fc1.bias.gradient: 160 120 0");
  EXPECT_THAT(TasksOf(program, "fc1"),
              Contains("d0 compute fully_connected_backward_data read dy read fc1.weight write dx: 192 64 0"));
  const program::BufferId weight_gradient = FirstOf(program, "fc1").uses[2].buffer;
  bool is_member = false;
  for (const program::Buffer& buffer : program.buffers) {
    const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
    is_member =
        is_member || (bucket != nullptr && buffer.name == "bucket0.gradient" && bucket->members[0] == weight_gradient);
  }
  EXPECT_TRUE(is_member);
}

// An operand knows of what it is a part: dropout's mask is that of the device's place in the whole.
TEST(EmitStages, OperandsAreOfTheDevicesPlaceInTheWhole) {
  layers::GraphBuilder net("dropped");
  auto images = net.Input("images", {4});
  net.SoftmaxCrossEntropy("loss", net.Dropout("dropout", images, {.rate = 0.5}));
  const layers::LayerGraph graph = Built(std::move(net));
  LoweringCase c(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"dropout", {kBatch, kGroup}}}));
  const ValueId x = c.Add("x", {8, 4}, {kS0, kS1}), y = c.Add("y", {8, 4}, {kS0, kS1});
  for (Value& value : c.lowering.values) value.dtype = program::DType::kF32;
  c.lowering.values[x.value].role = HostInputPart{};
  c.Act(LoadInput{}, "images", Pass::kInput, {}, {x});
  c.ForwardOf("dropout", {{X(), x, {kS0, kS1}}, {Y(), y}});
  const Program program = Emitted(c);
  std::vector<std::string> places;
  for (const Task& task : program.tasks) {
    if (task.provenance.layer != "dropout") continue;
    const auto& dropout = std::get<program::Dropout>(std::get<program::Compute>(task.body).op);
    places.push_back(absl::StrCat("d", task.device, " ", program::ToString(dropout.global_shape), " at ",
                                  program::ToString(dropout.offset)));
  }
  EXPECT_THAT(places, ElementsAre("d0 [8,4] at [0,0]", "d1 [8,4] at [0,2]", "d2 [8,4] at [4,0]", "d3 [8,4] at [4,2]"));
}

std::vector<std::string> BucketsOf(const Program& program, const std::string& name) {
  std::vector<std::string> lines;
  for (const program::Buffer& buffer : program.buffers) {
    const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
    if (bucket == nullptr || buffer.name != name) continue;
    std::string line = absl::StrCat("d", buffer.device, " ", bucket->held_parts, " from ", bucket->first_part, " of ",
                                    bucket->parts, bucket->equal_parts ? " equal" : "",
                                    buffer.lifetime == program::Lifetime::kStep ? " step:" : " persistent:");
    for (program::BufferId member : bucket->members) {
      const program::Buffer& m = program.buffer(member);
      absl::StrAppend(&line, " ", m.name, program::ToString(m.shape));
      if (m.layout_as != member) absl::StrAppend(&line, " as ", program.buffer(m.layout_as).name);
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(EmitBuckets, GradientsAndMomentaLieAsTheirWeights) {
  const Program program = Emitted(BucketCase(Reduction::kMaster));
  const char *d0 = "d0 1 from 0 of 1", *d1 = "d1 1 from 0 of 1";
  EXPECT_THAT(BucketsOf(program, "bucket0"), ElementsAre(absl::StrCat(d0, " persistent: fc1.weight[6,4] fc1.bias[6]"),
                                                         absl::StrCat(d1, " persistent: fc1.weight[6,4] fc1.bias[6]")));
  const char* gradients = " step: fc1.weight.gradient[6,4] as fc1.weight fc1.bias.gradient[6] as fc1.bias";
  EXPECT_THAT(BucketsOf(program, "bucket0.gradient"), ElementsAre(absl::StrCat(d0, gradients), absl::StrCat(d1, gradients)));
  EXPECT_THAT(
      BucketsOf(program, "bucket0.momentum"),
      ElementsAre(absl::StrCat(d0, " persistent: fc1.weight.momentum[6,4] as fc1.weight fc1.bias.momentum[6] as fc1.bias")));
}

TEST(EmitBuckets, AShardedMomentumIsHeldByPartsAlone) {
  const Program program = Emitted(BucketCase(Reduction::kSharded));
  const char* members = " persistent: fc1.weight.momentum[6,4] as fc1.weight fc1.bias.momentum[6] as fc1.bias";
  EXPECT_THAT(BucketsOf(program, "bucket0.momentum"),
              ElementsAre(absl::StrCat("d0 1 from 0 of 2 equal", members), absl::StrCat("d1 1 from 1 of 2 equal", members)));
}

program::SgdUpdate UpdateOf(UpdateOptions update) {
  const Program program = Emitted(BucketCase(Reduction::kAllReduce, {.global_batch = 8, .update = std::move(update)}));
  return std::get<program::SgdUpdate>(std::get<program::Compute>(FirstOf(program, "update").body).op);
}

TEST(EmitUpdates, FactorsAreThoseOfEachMemberUnlessAllAreOne) {
  EXPECT_EQ(UpdateOf({.layer_rates = {{"fc1", 2}}}).rates, (program::Factors{2, 2}));
  EXPECT_EQ(UpdateOf({.layer_rates = {{"fc2", 2}}}).rates, program::Factors());
  EXPECT_EQ(UpdateOf({.decays_weights_alone = true}).decays, (program::Factors{1, 0}));
  EXPECT_EQ(UpdateOf({}).decays, program::Factors());
}

// Two flop for each number that is squared: gradients, and weights where LARS asks for their norms.
TEST(EmitUpdates, FlopsAreThoseOfThePartsThatADeviceUpdates) {
  for (const Reduction reduction : {Reduction::kAllReduce, Reduction::kSharded}) {
    const int64_t elements = reduction == Reduction::kSharded ? 15 : 30;
    for (const program::Optimizer& optimizer : {program::Optimizer(program::Sgd{}), program::Optimizer(program::Lars{})}) {
      BucketCase c(reduction, {.global_batch = 8, .update = {.optimizer = optimizer, .clip_norm = 1}});
      c.Act(MeasureGradients{0}, "measure", Pass::kUpdate, {}, {});
      const Program program = Emitted(c);
      const int64_t squared = std::holds_alternative<program::Lars>(optimizer) ? 2 * elements : elements;
      EXPECT_EQ(FirstOf(program, "measure").work.flops, 2 * squared);
      EXPECT_EQ(FirstOf(program, "update").work.flops, 6 * elements);
    }
  }
}

// Two members, of which each has the norms of its gradient and of its weights in f64.
TEST(EmitUpdates, NormsAreSummedOverAllDevices) {
  BucketCase c(Reduction::kAllReduce, {.global_batch = 8, .update = {.clip_norm = 1}});
  c.Act(SumNorms{}, "norms", Pass::kUpdate, {}, {});
  EXPECT_THAT(TasksOf(Emitted(c), "norms"),
              ElementsAre("d0 comm all_reduce accumulate norms: 32 32 32", "d1 comm all_reduce accumulate norms: 32 32 32"));
}

TEST(EmitUpdates, AnAverageTakesThreeFlopForEachNumber) {
  BucketCase c(Reduction::kSharded, {.global_batch = 8, .update = {.average_decay = 0.5}});
  c.Act(AverageParameters{0}, "average", Pass::kUpdate, {}, {});
  const Program program = Emitted(c);
  EXPECT_EQ(FirstOf(program, "average").work.flops, 3 * 30);
  EXPECT_EQ(TasksOf(program, "average")[1], "d1 compute average_update read bucket0 accumulate bucket0.average: 240 120 0");
}

TEST(EmitBuckets, AveragesAreHeldWholeAndLieAsTheirWeights) {
  const Program program = Emitted(BucketCase(Reduction::kSharded, {.global_batch = 8, .update = {.average_decay = 0.5}}));
  const char* members = " persistent: fc1.weight.average[6,4] as fc1.weight fc1.bias.average[6] as fc1.bias";
  EXPECT_THAT(BucketsOf(program, "bucket0.average"),
              ElementsAre(absl::StrCat("d0 2 from 0 of 2 equal", members), absl::StrCat("d1 2 from 0 of 2 equal", members)));
}

// The sum of a gradient is the root's under a master, and the first device's elsewhere.
TEST(EmitOutputs, AGradientIsStoredOnceFromADeviceThatHasItsSum) {
  for (Reduction reduction : {Reduction::kAllReduce, Reduction::kMaster}) {
    const Program program = Emitted(BucketCase(reduction, {.global_batch = 8, .expose_gradients = true}));
    ASSERT_EQ(program.outputs.size(), 3);  // flags, and two gradients
    const program::Output& gradient = program.outputs[1];
    EXPECT_EQ(gradient.name, "fc1.weight");
    ASSERT_EQ(gradient.pieces.size(), 1);
    EXPECT_EQ(program.buffer(gradient.pieces[0].buffer).name, "fc1.weight.gradient");
    EXPECT_EQ(program.buffer(gradient.pieces[0].buffer).device, 0);
  }
}

// Every device has flags; the sums of metrics are those of any, and come from one.
TEST(EmitOutputs, MetricsAreSummedOverTheBatchAndReportedOnce) {
  const layers::LayerGraph graph = TwoLayers();
  const Program program = Lowered(graph, PlanOf(graph, 2, 2, {kBatch, kReplicate}));
  std::array<std::vector<int>, 2> devices;
  for (const program::Output& output : program.outputs) {
    for (const program::Piece& piece : output.pieces) {
      devices[output.name == "finite"].push_back(program.buffer(piece.buffer).device);
    }
  }
  EXPECT_THAT(devices[0], ElementsAre(0)) << "metrics";
  EXPECT_THAT(devices[1], ElementsAre(0, 1, 2, 3)) << "flags";
  std::vector<std::string> sums, stores;
  for (const Task& task : program.tasks) {
    if (task.device != 0) continue;
    if (task.provenance == program::Provenance{"loss", Pass::kOutput}) stores.push_back(program::Name(task));
    const auto* collective = std::get_if<program::Collective>(&task.body);
    if (collective == nullptr || program.buffer(task.uses[0].buffer).dtype != program::DType::kF64) continue;
    sums.push_back(absl::StrCat(program.buffer(task.uses[0].buffer).name, " of ",
                                absl::StrJoin(program.groups[collective->group], " ")));
  }
  EXPECT_THAT(sums, ElementsAre("label_count of 0 2", "metrics of 0 2"));
  EXPECT_THAT(stores, ElementsAre("all_reduce", "store"));
}

// The host alone waits for metrics, updates for the norms. Labels are counted under forward, which moves what fc1 makes.
TEST(EmitOutputs, LabelsMoveBeforeAndMetricsBehindAllThatDevicesWaitFor) {
  const layers::LayerGraph graph = TwoLayers();
  const Plan plan = PlanOf(graph, 2, 2, {kBatch, kReplicate}, {{"fc1", {kBatch, kColumn}}});
  const Program program = Lowered(graph, plan, {.update = {.clip_norm = 1}});
  std::vector<std::string> moved;
  for (const Task& task : program.tasks) {
    if (task.device == 0 && task.lane == program::Lane::kComm) moved.push_back(program.buffer(task.uses[0].buffer).name);
  }
  ASSERT_GE(moved.size(), 3u);
  EXPECT_EQ(moved.front(), "label_count");
  EXPECT_EQ(moved.back(), "metrics");
}

}  // namespace
}  // namespace colonnade::partition
