#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lower.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using layers::Inner;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The end of a step of Residual, with or without the sum before relu2.
struct MaskCase : LoweringCase {
  MaskCase() : LoweringCase(Residual(), PlanOf(Residual(), 1, 2, {kReplicate, kReplicate})) {}

  void Forward(bool adds) {
    ForwardOf("norm", {{X(), x}, {Inner(0), sums}, {Y(), adds ? y : a}});
    if (adds) ForwardOf("add", {{X(0), y}, {X(1), r}, {Y(), a}});
    ForwardOf("relu2", {{X(), a}, {Y(), z}});
    ASSERT_TRUE(FuseEpilogues(lowering).ok());
  }
  void SumOf(std::vector<ActionOperand> parts) {
    Act(SumGradients{Node("relu2")}, "relu2", program::Pass::kBackward, std::move(parts), {dz});
  }
  void Mask() { BackwardOf("relu2", {{Y(), z}, {D(Y()), dz}, {D(X()), da}}); }
  void Norm(ValueId of) {
    BackwardOf("norm", {{X(), x}, {D(Y()), of}, {Inner(0), sums}, {Inner(1), dsums}});
    BackwardOf("norm", {{X(), x}, {D(Y()), of}, {Inner(0), sums}, {Inner(1), dsums}, {D(X()), dx}});
  }
  void AddBackward() { BackwardOf("add", {{D(Y()), da}, {D(X(0)), dy}, {D(X(1)), dr}}); }
  // What stands behind forward.
  std::vector<std::string> Backward() {
    EXPECT_TRUE(FuseMasks(lowering).ok());
    std::vector<std::string> lines = Actions(lowering);
    lines.erase(lines.begin());
    return lines;
  }

  const program::Shape shape = {8, 8, 6, 6}, of_channels = {1, 2, 8};
  const ValueId x = Add("x", shape), sums = Add("sums", of_channels), y = Add("y", shape), r = Add("r", shape),
                a = Add("a", shape), z = Add("z", shape), dz = Add("dz", shape), da = Add("da", shape),
                dy = Add("dy", shape), dr = Add("dr", shape), dsums = Add("dsums", of_channels), dx = Add("dx", shape),
                part0 = Add("part0", shape), part1 = Add("part1", shape), part2 = Add("part2", shape);
};

TEST(FuseMasks, ANormalisationThatTookTheReluRecallsItsMask) {
  MaskCase c;
  c.Forward(/*adds=*/false);
  c.Mask();
  c.Norm(c.da);
  EXPECT_THAT(c.Backward(),
              ElementsAre("backward+relu norm: x dz sums -> dsums", "backward+relu norm: x dz sums dsums -> dx"));
}

TEST(FuseMasks, OneThatTookASummandTooMasksByWhatForwardLeftAndWritesTheGradient) {
  MaskCase c;
  c.Forward(/*adds=*/true);
  c.Mask();
  c.AddBackward();
  c.Norm(c.dy);
  EXPECT_THAT(c.Backward(), ElementsAre("backward+mask norm: x dz sums z -> dsums da", "backward add: da -> dy dr",
                                        "backward norm: x dy sums dsums -> dx"));
}

TEST(FuseMasks, ASumOfTwoGradientsThatTheMaskAloneReadsIsMadeOnTheWay) {
  MaskCase c;
  c.Forward(/*adds=*/true);
  c.SumOf({{c.part0, {}}, {c.part1, {}}});
  c.Mask();
  c.AddBackward();
  c.Norm(c.dy);
  EXPECT_THAT(c.Backward(), ElementsAre("backward+mask+more norm: x part0 sums z part1 -> dsums da",
                                        "backward add: da -> dy dr", "backward norm: x dy sums dsums -> dx"));
}

TEST(FuseMasks, ASumOfThreeOrOneThatOthersReadStays) {
  MaskCase three, read;
  for (MaskCase* c : {&three, &read}) {
    c->Forward(/*adds=*/true);
    c->SumOf(c == &three ? std::vector<ActionOperand>{{c->part0, {}}, {c->part1, {}}, {c->part2, {}}}
                         : std::vector<ActionOperand>{{c->part0, {}}, {c->part1, {}}});
    c->Mask();
    c->AddBackward();
    if (c == &read) c->BackwardOf("conv1", {{D(Y()), c->dz}});
    c->Norm(c->dy);
  }
  EXPECT_THAT(three.Backward(),
              ElementsAre("sum relu2: part0 part1 part2 -> dz", "backward+mask norm: x dz sums z -> dsums da",
                          "backward add: da -> dy dr", "backward norm: x dy sums dsums -> dx"));
  EXPECT_THAT(read.Backward(),
              ElementsAre("sum relu2: part0 part1 -> dz", "backward+mask norm: x dz sums z -> dsums da",
                          "backward add: da -> dy dr", "backward conv1: dz", "backward norm: x dy sums dsums -> dx"));
}

// Then the gradient has to be there, masked.
TEST(FuseMasks, AMaskIsNotRecalledWhereOthersReadTheGradientToo) {
  MaskCase c;
  c.Forward(/*adds=*/false);
  c.Mask();
  c.Norm(c.da);
  c.BackwardOf("conv1", {{D(Y()), c.da}});
  EXPECT_THAT(c.Backward(), ElementsAre("backward+mask norm: x dz sums z -> dsums da",
                                        "backward norm: x da sums dsums -> dx", "backward conv1: da"));
}

TEST(FuseMasks, AMaskThatNoNormalisationReadsStays) {
  MaskCase c;
  c.Forward(/*adds=*/true);
  c.Mask();
  c.BackwardOf("conv2", {{D(Y()), c.da}});
  EXPECT_THAT(c.Backward(), ElementsAre("backward relu2: z dz -> da", "backward conv2: da"));
}

TEST(FuseMasks, AStageDoesNotComeBeforeWhatItReads) {
  MaskCase c;
  c.Forward(/*adds=*/true);
  c.Mask();
  c.AddBackward();
  c.BackwardOf("conv2", {{D(Y()), c.dr}, {D(X()), c.part0}});
  c.BackwardOf("norm", {{X(), c.part0}, {D(Y()), c.dy}, {Inner(0), c.sums}, {Inner(1), c.dsums}});
  EXPECT_EQ(c.Backward()[0], "backward relu2: z dz -> da");
}

TEST(FuseMasks, AGradientThatLiesOtherwiseIsMaskedApart) {
  MaskCase c;
  c.Forward(/*adds=*/true);
  for (ValueId value : {c.z, c.dz, c.da}) c.lowering.values[value.value].placement = {kR, value == c.z ? kS0 : kR};
  c.Mask();
  c.Norm(c.da);
  EXPECT_THAT(c.Backward(), Contains(HasSubstr("backward relu2")));
}

// From a graph to tasks, on devices that share a batch.
TEST(FuseMasks, AResidualBlockHasNoPassOfItsOwnForSumAndActivation) {
  const layers::LayerGraph graph = Residual();
  for (int devices : {1, 2}) {
    const absl::StatusOr<program::Program> program =
        Lower(graph, PlanOf(graph, devices, 1, {kBatch, kReplicate}), {.global_batch = 8});
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<std::string> ops;
    for (const program::Task& task : program->tasks) ops.push_back(program::Name(task));
    EXPECT_THAT(ops, Contains("batch_norm_masked_sums").Times(devices));
    EXPECT_THAT(ops, Not(Contains("relu_forward")));
    // That of relu1: its gradient is the sum of two, and no normalisation stands before it.
    EXPECT_THAT(ops, Contains("relu_backward").Times(devices));
    EXPECT_THAT(ops, Contains("sum").Times(devices));
  }
}

}  // namespace
}  // namespace colonnade::partition
