// FuseEpilogues and ChoosePrecision.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct FusionCase : LoweringCase {
  explicit FusionCase(layers::LayerGraph network = TwoLayers(), std::vector<layers::Strategy> fc1 = {kReplicate, kReplicate})
      : LoweringCase(network, PlanOf(network, 1, 2, {kReplicate, kReplicate}, {{"fc1", std::move(fc1)}})) {}
  const ValueId x = Add("x", {8, 4});
};

TEST(FuseEpilogues, AReluThatAloneReadsAProductBecomesPartOfIt) {
  FusionCase c;
  const ValueId y = c.Add("y", {8, 6}), r = c.Add("r", {8, 6});
  c.ForwardOf("fc1", {{c.x, {}}}, {y});
  c.ForwardOf("relu", {{y, {}}}, {r});
  c.BackwardOf("relu", {{}, {r, {}}}, {});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward+relu fc1: x -> r", "backward relu: - r"));
}

TEST(FuseEpilogues, AProductThatOthersReadTooStaysWhole) {
  FusionCase c;
  const ValueId y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{c.x, {}}}, {y});
  c.ForwardOf("relu", {{y, {}}}, {c.Add("r", {8, 6})});
  c.BackwardOf("fc1", {{y, {}}}, {});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> y", "forward relu: y -> r", "backward fc1: y"));
}

TEST(FuseEpilogues, NothingIsFusedAcrossATransfer) {
  FusionCase c;
  const ValueId z = c.Add("z", {8, 6}), y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{c.x, {}}}, {z});
  c.Act(Reshard{{.axis = 1, .kind = ReshardKind::kAllReduce}}, "relu", program::Pass::kForward, {{z, {}}}, {y});
  c.ForwardOf("relu", {{y, {}}}, {c.Add("r", {8, 6})});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> z", "all_reduce/1 relu: z -> y", "forward relu: y -> r"));
}

TEST(FuseEpilogues, AProductWhoseBiasIsAddedApartIsNotFused) {
  FusionCase c(TwoLayers(), {kReplicate, kRow});
  const ValueId y = c.Add("y", {8, 6});
  c.ForwardOf("fc1", {{c.x, {}}}, {y});
  c.ForwardOf("relu", {{y, {}}}, {c.Add("r", {8, 6})});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering), ElementsAre("forward fc1: x -> y", "forward relu: y -> r"));
}

TEST(FuseEpilogues, OnlyProductsTakeARelu) {
  FusionCase c(PooledRelu());
  const ValueId p = c.Add("p", {8, 4}), y = c.Add("y", {8, 4});
  c.ForwardOf("pool", {{c.x, {}}}, {p});
  c.ForwardOf("relu", {{p, {}}}, {c.Add("r", {8, 4})});
  c.ForwardOf("fc", {{c.x, {}}}, {y});
  c.ForwardOf("flatten", {{y, {}}}, {c.Add("f", {8, 4})});
  ASSERT_TRUE(FuseEpilogues(c.lowering).ok());
  EXPECT_THAT(Actions(c.lowering),
              ElementsAre("forward pool: x -> p", "forward relu: p -> r", "forward fc: x -> y", "forward flatten: y -> f"));
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

TEST(ChoosePrecision, AnotherFloatingTypeIsAnInternalErrorAndOneThatIsNoneIsRefused) {
  LoweringCase c(TwoLayers(), PlanOf(TwoLayers(), 1, 1, {kReplicate, kReplicate}), {.dtype = DType::kBF16});
  c.lowering.values[c.Add("odd", {8, 6}).value].dtype = DType::kF32;
  const absl::Status status = ChoosePrecision(c.lowering);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("odd is of type f32"));
  LoweringCase bytes(TwoLayers(), PlanOf(TwoLayers(), 1, 1, {kReplicate, kReplicate}), {.dtype = DType::kU8});
  EXPECT_EQ(ChoosePrecision(bytes.lowering).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace colonnade::partition
