#include "program/dag.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Tasks on one device that use buffers as told; what they compute is of no account here.
class Tasks {
 public:
  BufferId Buffer(Shape shape = {8}) { return b.AddBuffer(0, "x", DType::kF32, std::move(shape)); }
  TaskId Add(Uses uses, Lane lane = Lane::kCompute) { return b.AddCompute(0, lane, Copy{}, std::move(uses), {}, {}); }
  Program Build() { return std::move(b).Build(); }

  Builder b{"dag", Mode::kTrain, 1, DType::kF32, {}};
};

BufferUse Part(BufferId buffer, int64_t begin, int64_t end, Access access) {
  return {buffer, {{begin}, {end - begin}}, access};
}

TEST(DeriveDependencies, ReadAfterWriteAndWriteAfterReadAndWriteAfterWrite) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId write = t.Add({t.b.Write(x)}), read = t.Add({t.b.Read(x)}), other_read = t.Add({t.b.Read(x)});
  const TaskId rewrite = t.Add({t.b.Write(x)}), last = t.Add({t.b.Write(x)});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[write.value], IsEmpty());
  EXPECT_THAT(found.within[read.value], ElementsAre(write));
  EXPECT_THAT(found.within[other_read.value], ElementsAre(write));
  EXPECT_THAT(found.within[rewrite.value], ElementsAre(write, read, other_read));
  EXPECT_THAT(found.within[last.value], ElementsAre(rewrite)) << "a covered write no longer counts";
}

TEST(DeriveDependencies, AccumulateReadsAndWrites) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId write = t.Add({t.b.Write(x)}), sum = t.Add({t.b.Accumulate(x)}), read = t.Add({t.b.Read(x)});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[sum.value], ElementsAre(write));
  EXPECT_THAT(found.within[read.value], ElementsAre(sum));
}

// The step before used the other slot, and the one before that has ended.
TEST(DeriveDependencies, TheNextStepsLoadIntoTwoSlotsDependsOnNothing) {
  for (int slots : {1, 2}) {
    Tasks t;
    const BufferId x = slots == 2 ? t.b.AddLoaded(0, "x", DType::kF32, {8}) : t.Buffer();
    const TaskId load = t.Add({t.b.Write(x)}, Lane::kLoad), read = t.Add({t.b.Read(x)});
    const Dependencies found = DeriveDependencies(t.Build());
    EXPECT_THAT(found.within[read.value], ElementsAre(load));
    EXPECT_EQ(found.carried[load.value].size(), slots == 2 ? 0u : 2u);
  }
}

TEST(DeriveDependencies, ATaskDoesNotDependOnItself) {
  Tasks t;
  const BufferId x = t.Buffer();
  t.Add({t.b.Write(x)});
  const TaskId in_place = t.Add({t.b.Read(x), t.b.Write(x)});
  EXPECT_THAT(DeriveDependencies(t.Build()).within[in_place.value], ElementsAre(TaskId{0}));
}

TEST(DeriveDependencies, RegionsApartAreIndependent) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId left = t.Add({Part(x, 0, 4, Access::kWrite)}), right = t.Add({Part(x, 4, 8, Access::kWrite)});
  const TaskId reads_right = t.Add({Part(x, 5, 7, Access::kRead)}), all = t.Add({t.b.Read(x)});
  const TaskId rewrites_left = t.Add({Part(x, 0, 4, Access::kWrite)});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[right.value], IsEmpty());
  EXPECT_THAT(found.within[reads_right.value], ElementsAre(right));
  EXPECT_THAT(found.within[all.value], ElementsAre(left, right));
  EXPECT_THAT(found.within[rewrites_left.value], ElementsAre(left, all));
}

// A task may write a buffer part by part, in any order.
TEST(DeriveDependencies, PartsThatOneTaskWritesAreOneWhereTheyAdjoin) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId all = t.Add({t.b.Write(x)}), middle = t.Add({Part(x, 1, 3, Access::kRead)});
  const TaskId parts = t.Add({Part(x, 5, 6, Access::kWrite), Part(x, 2, 4, Access::kWrite), Part(x, 0, 2, Access::kWrite)});
  const TaskId between = t.Add({Part(x, 4, 5, Access::kRead)}), of_one = t.Add({Part(x, 3, 4, Access::kRead)});
  const TaskId rewrites = t.Add({Part(x, 1, 3, Access::kWrite)});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[parts.value], ElementsAre(all, middle));
  EXPECT_THAT(found.within[between.value], ElementsAre(all)) << "nothing was written between the parts";
  EXPECT_THAT(found.within[of_one.value], ElementsAre(all, parts));
  EXPECT_THAT(found.within[rewrites.value], ElementsAre(all, parts)) << "two parts cover what was read before";
}

TEST(DeriveDependencies, BoxesMeetWhereTheyShareAnElement) {
  Tasks t;
  const BufferId x = t.Buffer({4, 8});
  const TaskId write = t.Add({{x, {{2, 4}, {2, 4}}, Access::kWrite}});
  const TaskId apart = t.Add({{x, {{0, 4}, {2, 4}}, Access::kRead}});
  const TaskId touching = t.Add({{x, {{3, 7}, {1, 1}}, Access::kRead}});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[apart.value], IsEmpty());
  EXPECT_THAT(found.within[touching.value], ElementsAre(write));
}

TEST(DeriveDependencies, BucketsMeetTheirMembersAlways) {
  Tasks t;
  const BufferId bucket = t.b.AddBucket(
      {.name = "bucket", .parts = 2, .held_parts = 2, .member_names = {"a", "b"}, .member_shapes = {{8}, {8}}});
  const auto members = std::get<Bucket>(t.b.buffer(bucket).storage).members;
  const TaskId a = t.Add({t.b.Write(members[0])}), b = t.Add({t.b.Write(members[1])});
  const TaskId part0 = t.Add({Part(bucket, 0, 1, Access::kAccumulate)});
  const TaskId part1 = t.Add({Part(bucket, 1, 2, Access::kAccumulate)});
  const TaskId all = t.Add({t.b.Accumulate(bucket)});
  const TaskId read_b = t.Add({t.b.Read(members[1])});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[b.value], IsEmpty());
  EXPECT_THAT(found.within[part0.value], ElementsAre(a, b));
  EXPECT_THAT(found.within[part1.value], ElementsAre(a, b));
  EXPECT_THAT(found.within[all.value], ElementsAre(a, b, part0, part1));
  EXPECT_THAT(found.within[read_b.value], ElementsAre(all));
  EXPECT_THAT(found.carried[a.value], ElementsAre(all));
  EXPECT_THAT(found.carried[b.value], ElementsAre(all, read_b));
}

TEST(DeriveDependencies, UsesOfAMemberMeetThoseOfTheSameMember) {
  Tasks t;
  const BufferId bucket = t.b.AddBucket(
      {.name = "bucket", .parts = 1, .held_parts = 1, .member_names = {"a", "b"}, .member_shapes = {{8}, {8}}});
  const auto members = std::get<Bucket>(t.b.buffer(bucket).storage).members;
  const TaskId write_a = t.Add({t.b.Write(members[0])}), write_b = t.Add({t.b.Write(members[1])});
  const TaskId read_a = t.Add({t.b.Read(members[0])}), read_b = t.Add({t.b.Read(members[1])});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[read_a.value], ElementsAre(write_a));
  EXPECT_THAT(found.within[read_b.value], ElementsAre(write_b));
}

// What a task writes last, behind ranges that are joined or might be taken for such.
TEST(DeriveDependencies, OnlyRangesOfOneBufferAreJoined) {
  Tasks t;
  const BufferId x = t.Buffer(), y = t.Buffer(), z = t.Buffer(), boxes = t.Buffer({8, 4});
  const BufferId bucket = t.b.AddBucket(
      {.name = "bucket", .parts = 1, .held_parts = 1, .member_names = {"a", "b"}, .member_shapes = {{8}, {8}}});
  const auto members = std::get<Bucket>(t.b.buffer(bucket).storage).members;
  const TaskId behind_a_gap =
      t.Add({Part(z, 0, 2, Access::kWrite), Part(z, 2, 4, Access::kWrite), Part(z, 6, 8, Access::kWrite)});
  const TaskId two_buffers = t.Add({Part(x, 0, 4, Access::kWrite), Part(y, 4, 8, Access::kWrite)});
  const TaskId two_members = t.Add({Part(members[0], 0, 4, Access::kWrite), Part(members[1], 4, 8, Access::kWrite)});
  const TaskId two_boxes = t.Add({{boxes, {{0, 0}, {4, 2}}, Access::kWrite}, {boxes, {{4, 2}, {4, 2}}, Access::kWrite}});
  const TaskId of_z = t.Add({Part(z, 6, 8, Access::kRead)}), of_y = t.Add({Part(y, 4, 8, Access::kRead)});
  const TaskId of_x = t.Add({Part(x, 4, 8, Access::kRead)}), of_b = t.Add({Part(members[1], 4, 8, Access::kRead)});
  const TaskId of_boxes = t.Add({{boxes, {{4, 2}, {4, 2}}, Access::kRead}});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.within[of_z.value], ElementsAre(behind_a_gap));
  EXPECT_THAT(found.within[of_y.value], ElementsAre(two_buffers));
  EXPECT_THAT(found.within[of_x.value], IsEmpty());
  EXPECT_THAT(found.within[of_b.value], ElementsAre(two_members));
  EXPECT_THAT(found.within[of_boxes.value], ElementsAre(two_boxes));
}

TEST(DeriveDependencies, TheNextStepWaitsForTheReadsOfThisOne) {
  Tasks t;
  const BufferId x = t.Buffer();
  const BufferId state = t.b.AddBuffer(0, "state", DType::kF32, {8}, Lifetime::kPersistent);
  const TaskId write = t.Add({t.b.Write(x)}), read = t.Add({t.b.Read(x), t.b.Read(state)});
  const TaskId update = t.Add({t.b.Read(x), t.b.Accumulate(state)});
  const Dependencies found = DeriveDependencies(t.Build());
  EXPECT_THAT(found.carried[write.value], ElementsAre(write, read, update));
  EXPECT_THAT(found.carried[read.value], ElementsAre(update));
  EXPECT_THAT(found.within[update.value], ElementsAre(write, read));
  EXPECT_THAT(found.carried[update.value], ElementsAre(update));
}

TEST(Conflicts, NeedsAWriteAndACommonElement) {
  Tasks t;
  const BufferId x = t.Buffer(), y = t.Buffer();
  const BufferUse left = Part(x, 0, 4, Access::kWrite), right = Part(x, 4, 8, Access::kWrite);
  const BufferUse all = t.b.Read(x), other = t.b.Write(y);
  const Program program = t.Build();
  EXPECT_TRUE(Conflicts(program, left, all));
  EXPECT_TRUE(Conflicts(program, all, right));
  EXPECT_FALSE(Conflicts(program, left, right));
  EXPECT_FALSE(Conflicts(program, all, all));
  EXPECT_FALSE(Conflicts(program, other, left));
}

// compute: a b    comm: c d    copy: e
struct ThreeLanes {
  ThreeLanes() {
    Tasks t;
    a = t.Add({}), c = t.Add({}, Lane::kComm), b = t.Add({}), d = t.Add({}, Lane::kComm), e = t.Add({}, Lane::kCopy);
    program = t.Build();
  }
  Program program;
  TaskId a, b, c, d, e;
};

TEST(HappensBefore, KnowsLaneOrderAlone) {
  const ThreeLanes l;
  const HappensBefore order(l.program);
  EXPECT_TRUE(order.Within(l.a, l.b));
  EXPECT_FALSE(order.Within(l.b, l.a));
  EXPECT_FALSE(order.Within(l.a, l.a));
  EXPECT_FALSE(order.Within(l.a, l.d));
  EXPECT_TRUE(order.Carried(l.a, l.b)) << "the step before of the same lane";
  EXPECT_TRUE(order.Carried(l.b, l.a));
  EXPECT_TRUE(order.Carried(l.e, l.e));
  EXPECT_FALSE(order.Carried(l.a, l.d));
  EXPECT_FALSE(order.Carried(l.e, l.b));
}

TEST(HappensBefore, FollowsWaits) {
  ThreeLanes l;
  l.program.tasks[l.d.value].waits = {l.b};
  l.program.tasks[l.e.value].waits = {l.d};
  const HappensBefore order(l.program);
  EXPECT_TRUE(order.Within(l.a, l.d));
  EXPECT_TRUE(order.Within(l.b, l.d));
  EXPECT_TRUE(order.Within(l.b, l.e)) << "by way of d";
  EXPECT_TRUE(order.Within(l.c, l.e));
  EXPECT_FALSE(order.Within(l.b, l.c));
  EXPECT_TRUE(order.Carried(l.b, l.c)) << "d of the step before waited for b and c comes after d";
  EXPECT_FALSE(order.Carried(l.d, l.a));
}

TEST(HappensBefore, FollowsWaitsOnTheStepBefore) {
  ThreeLanes l;
  l.program.tasks[l.d.value].waits = {l.b};
  l.program.tasks[l.a.value].waits_previous = {l.c};
  l.program.tasks[l.c.value].waits_previous = {l.e};
  const HappensBefore order(l.program);
  EXPECT_TRUE(order.Carried(l.c, l.a));
  EXPECT_TRUE(order.Carried(l.c, l.b));
  EXPECT_FALSE(order.Carried(l.d, l.a));
  EXPECT_FALSE(order.Carried(l.d, l.b));
  EXPECT_TRUE(order.Carried(l.e, l.d));
  EXPECT_FALSE(order.Carried(l.e, l.a)) << "c of the step before waited for e of the step before that";
  EXPECT_FALSE(order.Within(l.e, l.d));
}

TEST(HappensBefore, KnowsNothingOfOtherDevices) {
  Builder b("two", Mode::kTrain, 1, DType::kF32, {{"data", 2}});
  const TaskId first = b.AddCompute(0, Lane::kCompute, Copy{}, {}, {}, {});
  for (int i = 0; i < 2; ++i) b.AddCompute(1, Lane::kCompute, Copy{}, {}, {}, {});
  const Program program = std::move(b).Build();
  const HappensBefore order(program);
  EXPECT_FALSE(order.Within(first, TaskId{2}));
  EXPECT_FALSE(order.Carried(first, TaskId{2}));
  EXPECT_TRUE(order.Within(TaskId{1}, TaskId{2}));
}

}  // namespace
}  // namespace colonnade::program
