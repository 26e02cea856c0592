#include "program/builder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;

TEST(Builder, MakesBothSidesOfAnExchange) {
  Program program = TwoColumnsUnscheduled();
  const Exchange a = std::get<Exchange>(Find(program, "exchange", 0).body);
  const Exchange b = std::get<Exchange>(Find(program, "exchange", 1).body);
  EXPECT_EQ(a, (Exchange{.message = 0, .peer = 1, .sends = true, .receives = true}));
  EXPECT_EQ(b, (Exchange{.message = 0, .peer = 0, .sends = true, .receives = true}));
}

TEST(Builder, OneWayExchangesSendOrReceive) {
  Builder b("one way", Mode::kTrain, 1, DType::kF32, {{"model", 2}});
  const BufferId x = b.AddBuffer(0, "x", DType::kF32, {4}), y = b.AddBuffer(1, "y", DType::kF32, {4});
  b.AddExchange(0, {{b.Read(x)}}, 1, {{b.Write(y)}}, Lane::kComm, {"x"});
  b.AddExchange(0, {{b.Read(x)}}, 1, {{b.Write(y)}}, Lane::kComm, {"x"});
  const Program program = std::move(b).Build();
  EXPECT_EQ(program.device_count, 2);
  EXPECT_EQ(std::get<Exchange>(program.tasks[2].body), (Exchange{1, 1, true, false}));
  EXPECT_EQ(std::get<Exchange>(program.tasks[3].body), (Exchange{1, 0, false, true}));
}

TEST(Builder, EqualDeviceListsAreOneGroup) {
  Builder b("groups", Mode::kTrain, 1, DType::kF32, {{"model", 2}});
  EXPECT_EQ(b.AddGroup({0, 1}), 0);
  EXPECT_EQ(b.AddGroup({1, 0}), 1);
  EXPECT_EQ(b.AddGroup({0, 1}), 0);
}

TEST(Builder, NumbersCollectivesAndListsMembersInGroupOrder) {
  const Program program = EveryCollective();
  EXPECT_EQ(program.tasks[0].device, 1);
  EXPECT_EQ(program.tasks[1].device, 0);
  EXPECT_EQ(std::get<Collective>(program.tasks[3].body).instance, 1);
}

TEST(Program, RootOfAMemberIsItsBucket) {
  Program program = TwoColumns();
  const BufferId bucket = FindBuffer(program, "bucket0").id;
  EXPECT_EQ(RootOf(program, FindBuffer(program, "bucket0.fc.w").id), bucket);
  EXPECT_EQ(RootOf(program, bucket), bucket);
}

TEST(Program, LaneOrderIsTheSubsequenceOfTheLane) {
  Program program = TwoColumns();
  EXPECT_THAT(LaneOrder(program, 1, Lane::kComm),
              ElementsAre(Find(program, "exchange", 1).id, Find(program, "all_reduce", 1).id));
}

}  // namespace
}  // namespace colonnade::program
