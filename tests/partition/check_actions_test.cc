// What must hold after each lowering pass.
#include "partition/lowering/check_actions.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

using program::Pass;
using ::testing::HasSubstr;

// One bucket, which is reduced in two parts.
struct CheckCase : LoweringCase {
  CheckCase() : LoweringCase(TwoLayers(), PlanOf(TwoLayers(), 2, 1, {kBatch, kReplicate})) {
    lowering.buckets.push_back({.name = "bucket0", .axes = {0}, .reduction_parts = 2});
  }
  void Do(ActionBody what) { Act(what, "bucket0", Pass::kUpdate, {}, {}); }
  // The one parameter of the bucket.
  ValueId AddParameter() {
    lowering.parameters.push_back({.spec = {.name = "w", .shape = {6, 4}}, .bucket = 0});
    const ValueId w = Add("w", {6, 4});
    lowering.values[w.value].role = TrainedParameter{0};
    return w;
  }
  std::string Problem() const { return std::string(CheckActions(lowering, "the test").message()); }
};

TEST(CheckActions, AValueIsMadeOnceAndBeforeItIsRead) {
  CheckCase c;
  const ValueId x = c.Add("x", {8, 4});
  c.ForwardOf("fc1", {{Y(), x}});
  c.ForwardOf("relu", {{X(), x}});
  EXPECT_EQ(c.Problem(), "");
  std::swap(c.lowering.actions[0], c.lowering.actions[1]);
  EXPECT_THAT(c.Problem(), HasSubstr("after the test: layer relu reads x before it is made"));
  c.lowering.actions[0] = c.lowering.actions[1];
  EXPECT_THAT(c.Problem(), HasSubstr("x is made twice"));
}

TEST(CheckActions, APartIsMadeOnceAndBeforeItIsRead) {
  CheckCase c;
  c.lowering.batch_parts = 2;
  const ValueId x = c.Add("x", {8, 4});
  std::vector<Action>& actions = c.lowering.actions;
  for (int part : {0, 1}) c.ForwardOf("fc1", {{Y(), x}}), actions.back().batch_part = part;
  c.ForwardOf("relu", {{X(), x}});
  EXPECT_EQ(c.Problem(), "");
  std::swap(actions[1], actions[2]);
  EXPECT_THAT(c.Problem(), HasSubstr("layer relu reads x before it is made")) << "of which one part is there";
  actions[1].batch_part = 0;
  EXPECT_EQ(c.Problem(), "");
  actions[1].batch_part = 1;
  EXPECT_THAT(c.Problem(), HasSubstr("layer relu reads x before it is made"));
  actions[1] = actions[0];
  EXPECT_THAT(c.Problem(), HasSubstr("x is made twice"));
  actions[1].batch_part.reset();
  EXPECT_THAT(c.Problem(), HasSubstr("x is made twice"));
}

// Of a parameter's two values, backward makes the gradient.
TEST(CheckActions, AParameterIsThereFromTheBeginningAndItsGradientIsNot) {
  CheckCase c;
  const ValueId w = c.AddParameter();
  c.ForwardOf("fc1", {{layers::Parameter(0), w}});
  EXPECT_EQ(c.Problem(), "");
  c.lowering.values[w.value].role = ParameterGradient{0};
  EXPECT_THAT(c.Problem(), HasSubstr("layer fc1 reads w before it is made"));
}

TEST(CheckActions, AParameterIsNotReadAfterItsUpdate) {
  CheckCase c;
  const ValueId w = c.AddParameter();
  c.Do(CheckGradients{0});
  for (int part : {0, 1}) c.Do(ReduceGradients{0, part});
  c.ForwardOf("fc1", {{layers::Parameter(0), w}});
  c.Do(UpdateParameters{0});
  EXPECT_EQ(c.Problem(), "");
  std::swap(c.lowering.actions[3], c.lowering.actions[4]);
  EXPECT_THAT(c.Problem(), HasSubstr("layer fc1 reads w after it is updated"));
}

TEST(CheckActions, ABucketIsCheckedReducedUpdatedAndGathered) {
  CheckCase c;
  c.Do(CheckGradients{0});
  for (int part : {0, 1}) c.Do(ReduceGradients{0, part});
  c.Do(UpdateParameters{0});
  c.Do(GatherParameters{0});
  EXPECT_EQ(c.Problem(), "");
  c.lowering.actions.erase(c.lowering.actions.begin());
  EXPECT_THAT(c.Problem(), HasSubstr("bucket0 is used before it is checked"));
}

TEST(CheckActions, APartOfABucketIsReducedOnceInTurnAndBeforeTheUpdate) {
  const auto problem = [](const std::vector<ActionBody>& actions) {
    CheckCase c;
    c.Do(CheckGradients{0});
    for (const ActionBody& what : actions) c.Do(what);
    return c.Problem();
  };
  const char* out_of_order = "bucket0 is reduced, updated or gathered out of order";
  EXPECT_EQ(problem({ReduceGradients{0, 0}, ReduceGradients{0, 1}, UpdateParameters{0}}), "");
  EXPECT_THAT(problem({ReduceGradients{0, 0}, ReduceGradients{0, 0}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({ReduceGradients{0, 1}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({ReduceGradients{0, 0}, ReduceGradients{0, 1}, ReduceGradients{0, 2}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({ReduceGradients{0, 0}, UpdateParameters{0}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({UpdateParameters{0}, UpdateParameters{0}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({UpdateParameters{0}, ReduceGradients{0, 0}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({CheckGradients{0}}), HasSubstr(out_of_order));
  EXPECT_THAT(problem({ReduceGradients{0, 0}}), HasSubstr("bucket0 is never updated"));
}

}  // namespace
}  // namespace colonnade::partition
