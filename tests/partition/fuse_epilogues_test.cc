// FuseEpilogues and ChoosePrecision.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::DType;
using program::Pass;
using ::testing::ElementsAre;

struct FusionCase : LoweringCase {
  explicit FusionCase(layers::LayerGraph network = TwoLayers(), std::vector<layers::Strategy> fc1 = {kReplicate, kReplicate})
      : LoweringCase(network, PlanOf(network, 1, 2, {kReplicate, kReplicate}, {{"fc1", std::move(fc1)}})) {}
  const ValueId x = Add("x", {8, 4});
};

TEST(FuseEpilogues, AReluThatAloneReadsAProductBecomesPartOfIt) {
  FusionCase c;
  const ValueId y = c.Add("y", {8, 6}), r = c.Add("r", {8, 6});
  c.ForwardOf("fc1", {{X(), c.x}, {Y(), y}});
  c.ForwardOf("relu", {{X(), y}, {Y(), r}});
  c.BackwardOf("relu", {{Y(), r}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward+relu fc1: x -> r", "backward relu: r"));
}

TEST(FuseEpilogues, AProductThatOthersReadTooStaysWhole) {
  FusionCase c;
  const ValueId y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{X(), c.x}, {Y(), y}});
  c.ForwardOf("relu", {{X(), y}, {Y(), c.Add("r", {8, 6})}});
  c.BackwardOf("fc1", {{X(), y}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> y", "forward relu: y -> r", "backward fc1: y"));
}

TEST(FuseEpilogues, NothingIsFusedAcrossATransfer) {
  FusionCase c;
  const ValueId z = c.Add("z", {8, 6}), y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{X(), c.x}, {Y(), z}});
  c.Act(Reshard{{.axis = 1, .kind = ReshardKind::kAllReduce}}, "relu", program::Pass::kForward, {{z, {}}}, {y});
  c.ForwardOf("relu", {{X(), y}, {Y(), c.Add("r", {8, 6})}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> z", "all_reduce/1 relu: z -> y", "forward relu: y -> r"));
}

// What the product makes is read by the bias, and the op that adds the bias applies no activation.
TEST(FuseEpilogues, AProductWhoseBiasIsAddedApartIsNotFused) {
  FusionCase c(TwoLayers(), {kReplicate, kRow});
  const ValueId z = c.Add("z", {8, 6}), y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{X(), c.x}, {layers::Inner(), z}});
  c.ForwardOf("fc1", {{layers::Inner(), z}, {Y(), y}});
  c.ForwardOf("relu", {{X(), y}, {Y(), c.Add("r", {8, 6})}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> z", "forward fc1: z -> y", "forward relu: y -> r"));
}

TEST(FuseEpilogues, OnlyProductsTakeARelu) {
  FusionCase c(PooledRelu());
  const ValueId p = c.Add("p", {8, 4}), y = c.Add("y", {8, 4});
  c.ForwardOf("pool", {{X(), c.x}, {Y(), p}});
  c.ForwardOf("relu", {{X(), p}, {Y(), c.Add("r", {8, 4})}});
  c.ForwardOf("fc", {{X(), c.x}, {Y(), y}});
  c.ForwardOf("flatten", {{X(), y}, {Y(), c.Add("f", {8, 4})}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward pool: x -> p", "forward relu: p -> r", "forward fc: x -> y", "forward flatten: y -> f"));
}

// The end of forward of Residual: norm, add, relu2.
struct ResidualCase : LoweringCase {
  ResidualCase() : LoweringCase(Residual(), PlanOf(Residual(), 1, 2, {kReplicate, kReplicate})) {}
  void Normalise() { ForwardOf("norm", {{X(), x}, {layers::Inner(), sums}, {Y(), y}}); }
  void AddAndCut() {
    ForwardOf("add", {{X(0), y}, {X(1), r}, {Y(), a}});
    ForwardOf("relu2", {{X(), a}, {Y(), z}});
  }
  const program::Shape shape = {8, 8, 6, 6};
  const ValueId x = Add("x", shape), sums = Add("sums", {1, 2, 8}), y = Add("y", shape), r = Add("r", shape),
                a = Add("a", shape), z = Add("z", shape);
};

TEST(FuseEpilogues, ASumOfWhatANormalisationMakesAndAnotherValueBecomesPartOfItWithTheRelu) {
  ResidualCase c;
  c.Normalise();
  c.AddAndCut();
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward+addend+relu norm: x sums r -> z"));
}

// Of two normalisations the second takes the first one's result, which is there by then.
TEST(FuseEpilogues, TheStageThatMakesTheLaterSummandTakesTheOther) {
  ResidualCase c;
  c.ForwardOf("norm", {{X(), c.x}, {layers::Inner(), c.sums}, {Y(), c.r}});
  c.Normalise();
  c.AddAndCut();
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward norm: x sums -> r", "forward+addend+relu norm: x sums r -> z"));
}

TEST(FuseEpilogues, ASumWhoseOtherSummandComesAfterTheNormalisationStaysApart) {
  ResidualCase c;
  c.Normalise();
  c.ForwardOf("conv2", {{X(), c.x}, {Y(), c.r}});
  c.AddAndCut();
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward norm: x sums -> y", "forward conv2: x -> r", "forward add: y r -> a",
                                               "forward relu2: a -> z"));
}

TEST(FuseEpilogues, ANormalisationThatOthersReadTooTakesNoSummand) {
  ResidualCase c;
  c.Normalise();
  c.AddAndCut();
  c.ForwardOf("conv2", {{X(), c.y}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering)[0], "forward norm: x sums -> y");
  EXPECT_EQ(Actions(c.lowering)[1], "forward add: y r -> a");
}

TEST(FuseEpilogues, ANormalisationTakesOneSummandAndNoneBehindAnActivation) {
  ResidualCase two, behind;
  const ValueId more = two.Add("more", two.shape);
  two.Normalise();
  two.ForwardOf("add", {{X(0), two.y}, {X(1), two.r}, {Y(), two.a}});
  two.ForwardOf("add", {{X(0), two.a}, {X(1), more}, {Y(), two.z}});
  ASSERT_TRUE(FuseEpilogues(two.lowering).ok());
  EXPECT_THAT(Actions(two.lowering), ElementsAre("forward+addend norm: x sums r -> a", "forward add: a more -> z"));

  behind.Normalise();
  behind.ForwardOf("relu2", {{X(), behind.y}, {Y(), behind.a}});
  behind.ForwardOf("add", {{X(0), behind.a}, {X(1), behind.r}, {Y(), behind.z}});
  ASSERT_TRUE(FuseEpilogues(behind.lowering).ok());
  EXPECT_THAT(Actions(behind.lowering), ElementsAre("forward+relu norm: x sums -> a", "forward add: a r -> z"));
}

TEST(FuseEpilogues, ASummandThatLiesOtherwiseIsNotTaken) {
  ResidualCase c;
  for (ValueId value : {c.x, c.y, c.r, c.a}) c.lowering.values[value.value].placement = {kR, value == c.r ? kS0 : kR};
  c.Normalise();
  c.ForwardOf("add", {{X(0), c.y}, {X(1), c.r}, {Y(), c.a}});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_EQ(c.lowering.actions.size(), 2u);
}

TEST(ChoosePrecision, ValuesTakeTheProgramsTypeAndLabelsKeepTheirs) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 1, 1, {kReplicate, kReplicate}), {.dtype = dtype});
    const ValueId y = c.Add("y", {8, 6}), labels = c.Add("labels", {8});
    c.lowering.values[labels.value].dtype = DType::kI32;
    ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
    EXPECT_EQ(c.lowering.value(y).dtype, dtype);
    EXPECT_EQ(c.lowering.value(labels).dtype, DType::kI32);
  }
}

// What layers keep for themselves is not rounded, nor what has a type of its own: flags, places in windows, metrics.
TEST(ChoosePrecision, WhatIsInTheMasterTypeIsF32WhereActivationsAreBf16) {
  const std::vector<std::pair<DType, DType>> types = {
      {DType::kF32, DType::kF32}, {DType::kBF16, DType::kF32}, {DType::kF64, DType::kF64}};
  for (const auto& [dtype, master] : types) {
    LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 1, 1, {kReplicate, kReplicate}), {.dtype = dtype});
    const ValueId scale = c.Add("scale", {8, 6}), metrics = c.Add("metrics", {4});
    c.lowering.values[scale.value].in_master_type = true;
    c.lowering.values[metrics.value].dtype = DType::kF64;
    ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
    EXPECT_EQ(c.lowering.value(scale).dtype, master);
    EXPECT_EQ(c.lowering.value(metrics).dtype, DType::kF64);
  }
}

// Of a step of TwoLayers, from ExpandStages on.
struct PrecisionCase : LoweringCase {
  explicit PrecisionCase(DType dtype)
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 1, 2, {kReplicate, kReplicate}, {{"fc1", {kReplicate, kColumn}}}),
                     {.global_batch = 8, .dtype = dtype}) {
    EXPECT_TRUE(ExpandStages(lowering).ok());
    EXPECT_TRUE(ExpandShards(lowering).ok());
    for (Value& value : lowering.values) {
      if (!IsOfParameter(value)) value.placement = {};  // keeps the lines short
    }
    for (Action& action : lowering.actions) {
      for (ActionOperand& operand : action.inputs) operand.needed = {};
    }
  }
};

TEST(ChoosePrecision, InBf16AParameterIsRoundedOnceBeforeItsFirstReader) {
  PrecisionCase c(DType::kBF16);
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("count labels loss: labels -> label_count", "round fc1: -> fc1.weight.bf16(R,S0)",
                          "round fc1: -> fc1.bias.bf16(R,S0)", "forward fc1: images fc1.weight.bf16 fc1.bias.bf16 -> fc1.y",
                          "forward relu: fc1.y -> relu.y", "round fc2: -> fc2.weight.bf16(R,R)",
                          "round fc2: -> fc2.bias.bf16(R,R)", "forward fc2: relu.y fc2.weight.bf16 fc2.bias.bf16 -> fc2.y",
                          "forward loss: fc2.y labels -> metrics loss.probabilities",
                          "backward loss: labels label_count loss.probabilities -> loss.dx", "backward fc2: relu.y loss.dx",
                          "backward fc2: fc2.weight.bf16 loss.dx -> fc2.dx", "backward relu: relu.y fc2.dx -> relu.dx",
                          "backward fc1: images relu.dx", "report loss: metrics"));
  const Action& round = c.lowering.actions[2];
  EXPECT_EQ(std::get<TrainedParameter>(c.lowering.value(round.inputs[0].value).role).index, 1) << "fc1.bias";
  EXPECT_EQ(c.lowering.value(round.inputs[0].value).dtype, DType::kF32);
  EXPECT_EQ(c.lowering.value(round.outputs[0]).dtype, DType::kBF16);
  EXPECT_TRUE(c.lowering.value(round.outputs[0]).Is<Intermediate>());
  EXPECT_EQ(round.provenance, (program::Provenance{"fc1", program::Pass::kForward}));
}

TEST(ChoosePrecision, InBf16GradientsOfParametersStayInTheMasterType) {
  PrecisionCase c(DType::kBF16);
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  int gradients = 0;
  for (const Value& value : c.lowering.values) {
    if (!value.Is<ParameterGradient>()) continue;
    EXPECT_EQ(value.dtype, DType::kF32) << value.name;
    ++gradients;
  }
  EXPECT_EQ(gradients, 4);
}

// What a layer that is split makes of the gradient of its input, and the ReLU before it, which needs the sum.
struct SumCase : LoweringCase {
  SumCase(DType dtype, int64_t replicas, TensorPlacement placement)
      : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), replicas, 2, {kReplicate, kReplicate}),
                     {.global_batch = 8, .dtype = dtype}),
        made(placement),
        dx(Add("dx", {8, 6}, placement)) {
    BackwardOf("fc2", {{D(X()), dx}});
  }
  ValueId Sum(ValueId from, int axis, const std::string& name) {
    TensorPlacement placement = lowering.value(from).placement;
    placement[axis] = kR;
    const ValueId sum = Add(name, {8, 6}, placement);
    lowering.values[sum.value].in_place_of = from;
    Act(Reshard{{.axis = axis, .kind = ReshardKind::kAllReduce, .from = kP, .to = kR}}, "fc2", Pass::kBackward,
        {{from, lowering.value(from).placement}}, {sum});
    return sum;
  }
  void Read(ValueId value) { BackwardOf("relu", {{D(Y()), value, lowering.value(value).placement}}); }
  DType TypeOf(const std::string& name) const {
    for (const Value& value : lowering.values) {
      if (value.name == name) return *value.dtype;
    }
    ADD_FAILURE() << "no value " << name;
    return DType::kU8;
  }

  TensorPlacement made;
  ValueId dx;
};

TEST(ChoosePrecision, InBf16ASumOverDevicesIsInF32AndRoundedOnceForAllItsReaders) {
  SumCase c(DType::kBF16, 1, {kR, kP});
  const ValueId sum = c.Sum(c.dx, 1, "sum");
  c.BackwardOf("fc1", {});  // runs while the sum moves
  c.Read(sum);
  c.Read(sum);
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("backward fc2: -> dx(R,P)", "all_reduce/1 fc2: dx(R,P) -> sum(R,R)",
                                               "backward fc1:", "round fc2: sum(R,R) -> sum.bf16(R,R)",
                                               "backward relu: sum.bf16(R,R)", "backward relu: sum.bf16(R,R)"));
  EXPECT_EQ(c.TypeOf("dx"), DType::kF32);
  EXPECT_EQ(c.TypeOf("sum"), DType::kF32);
  EXPECT_EQ(c.TypeOf("sum.bf16"), DType::kBF16);
  EXPECT_FALSE(c.lowering.value(c.lowering.actions[3].outputs[0]).in_place_of.valid());
}

TEST(ChoosePrecision, InBf16ASumOverTwoAxesIsRoundedAfterTheSecond) {
  SumCase c(DType::kBF16, 2, {kP, kP});
  c.Read(c.Sum(c.Sum(c.dx, 0, "some"), 1, "all"));
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("backward fc2: -> dx(P,P)", "all_reduce/0 fc2: dx(P,P) -> some(R,P)",
                                               "all_reduce/1 fc2: some(R,P) -> all(R,R)",
                                               "round fc2: all(R,R) -> all.bf16(R,R)", "backward relu: all.bf16(R,R)"));
  EXPECT_EQ(c.TypeOf("some"), DType::kF32);
  EXPECT_EQ(c.TypeOf("all"), DType::kF32);
}

TEST(ChoosePrecision, InBf16WhatIsAddedBeforeItIsSummedOverDevicesIsAddedInF32) {
  SumCase c(DType::kBF16, 1, {kR, kP});
  const ValueId total = c.Add("total", {8, 6}, {kR, kP});
  c.Act(SumGradients{c.Node("relu")}, "relu", Pass::kBackward, {{c.dx, c.made}, {c.dx, c.made}}, {total});
  c.Read(c.Sum(total, 1, "sum"));
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("backward fc2: -> dx(R,P)", "sum relu: dx(R,P) dx(R,P) -> total(R,P)",
                                               "all_reduce/1 fc2: total(R,P) -> sum(R,R)",
                                               "round fc2: sum(R,R) -> sum.bf16(R,R)", "backward relu: sum.bf16(R,R)"));
  EXPECT_EQ(c.TypeOf("total"), DType::kF32);
}

// As a row split's z, to which the bias is added in f32.
TEST(ChoosePrecision, ASumThatIsReadInTheMasterTypeIsNotRounded) {
  SumCase c(DType::kBF16, 1, {kR, kP});
  const ValueId sum = c.Sum(c.dx, 1, "sum");
  for (ValueId id : {c.dx, sum}) c.lowering.values[id.value].in_master_type = true;
  c.Read(sum);
  const std::vector<std::string> before = Actions(c.lowering);
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_EQ(Actions(c.lowering), before);
  EXPECT_EQ(c.TypeOf("sum"), DType::kF32);
}

// Of one device nothing is a summand.
TEST(ChoosePrecision, WhatIsPartialOnAnAxisOfOneDeviceIsRoundedWhereItIsStored) {
  SumCase c(DType::kBF16, 1, {kP, kR});
  c.Read(c.dx);
  ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
  EXPECT_EQ(c.lowering.actions.size(), 2u);
  EXPECT_EQ(c.TypeOf("dx"), DType::kBF16);
}

TEST(ChoosePrecision, InF32AndF64ASumOverDevicesIsReadAsItIs) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    SumCase c(dtype, 1, {kR, kP});
    c.Read(c.Sum(c.dx, 1, "sum"));
    const std::vector<std::string> before = Actions(c.lowering);
    ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
    EXPECT_EQ(Actions(c.lowering), before);
    EXPECT_EQ(c.TypeOf("sum"), dtype);
  }
}

TEST(ChoosePrecision, KernelsThatComputeInTheTypeOfParametersReadThemAsTheyAre) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    PrecisionCase c(dtype);
    const std::vector<std::string> before = Actions(c.lowering);
    ASSERT_TRUE(ChoosePrecision(c.lowering).ok());
    EXPECT_EQ(Actions(c.lowering), before);
    const ValueId weight = c.lowering.actions[1].inputs[1].value;
    EXPECT_EQ(std::get<TrainedParameter>(c.lowering.value(weight).role).index, 0);
    EXPECT_EQ(c.lowering.value(weight).dtype, dtype);
  }
}

}  // namespace
}  // namespace colonnade::partition
