#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "partition/lowering/passes.h"
#include "program/builder.h"
#include "program/dag.h"
#include "program/memory.h"
#include "program/verify.h"
#include "tests/partition/lowered.h"
#include "tests/program/verify_memory_map.h"

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::Lane;
using program::Program;
using program::TaskId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Tasks of one device; what they compute is of no account here.
class Tasks {
 public:
  BufferId Buffer() { return b.AddBuffer(0, "x", program::DType::kF32, {8}); }
  TaskId Add(Lane lane, program::Uses uses) { return b.AddCompute(0, lane, program::Copy{}, std::move(uses), {}, {}); }
  Program Assigned() {
    Program program = std::move(b).Build();
    EXPECT_TRUE(AssignWaits(program).ok());
    return program;
  }
  program::Builder b{"waits", program::Mode::kTrain, 1, program::DType::kF32, {}};
};

TEST(AssignWaits, ALaneKeepsItsOwnOrder) {
  Tasks t;
  const BufferId x = t.Buffer();
  t.Add(Lane::kCompute, {t.b.Write(x)});
  const TaskId reader = t.Add(Lane::kCompute, {t.b.Read(x)});
  const Program program = t.Assigned();
  EXPECT_THAT(program.task(reader).waits, IsEmpty());
  EXPECT_THAT(program.task(TaskId{0}).waits_previous, IsEmpty());
}

TEST(AssignWaits, AReaderInAnotherLaneWaitsAndWhatFollowsItThereNeedNot) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId load = t.Add(Lane::kCopy, {t.b.Write(x)}), first = t.Add(Lane::kCompute, {t.b.Read(x)}),
               second = t.Add(Lane::kCompute, {t.b.Read(x)});
  const Program program = t.Assigned();
  EXPECT_THAT(program.task(first).waits, ElementsAre(load));
  EXPECT_THAT(program.task(second).waits, IsEmpty());
}

// d reads what a and c have made, and c has waited for a.
TEST(AssignWaits, AWaitThatAnotherImpliesIsLeftOut) {
  Tasks t;
  const BufferId x = t.Buffer(), y = t.Buffer();
  const TaskId a = t.Add(Lane::kCopy, {t.b.Write(x)}), c = t.Add(Lane::kCompute, {t.b.Read(x), t.b.Write(y)}),
               d = t.Add(Lane::kComm, {t.b.Read(x), t.b.Read(y)});
  const Program program = t.Assigned();
  EXPECT_THAT(program.task(c).waits, ElementsAre(a));
  EXPECT_THAT(program.task(d).waits, ElementsAre(c));
}

// Two lanes, neither of which knows of the other.
TEST(AssignWaits, WaitsThatImplyEachOtherInNoWayAreAllWritten) {
  Tasks t;
  const BufferId x = t.Buffer(), y = t.Buffer();
  const TaskId a = t.Add(Lane::kCopy, {t.b.Write(x)}), c = t.Add(Lane::kCompute, {t.b.Write(y)}),
               d = t.Add(Lane::kComm, {t.b.Read(x), t.b.Read(y)});
  EXPECT_THAT(t.Assigned().task(d).waits, ElementsAre(a, c));
}

// The next step's load overwrites x: it waits for the last reader of this step, and that one's lane for nothing.
TEST(AssignWaits, AWriterWaitsForTheReadersOfTheStepBefore) {
  Tasks t;
  const BufferId x = t.Buffer();
  const TaskId load = t.Add(Lane::kCopy, {t.b.Write(x)});
  t.Add(Lane::kCompute, {t.b.Read(x)});
  const TaskId last = t.Add(Lane::kCompute, {t.b.Read(x)});
  const Program program = t.Assigned();
  EXPECT_THAT(program.task(load).waits, IsEmpty());
  EXPECT_THAT(program.task(load).waits_previous, ElementsAre(last));
  EXPECT_THAT(program.task(last).waits_previous, IsEmpty());
}

// The second load of a step need not wait for a reader that the first has waited for.
TEST(AssignWaits, OneWaitForTheStepBeforeServesAllBehindIt) {
  Tasks t;
  const BufferId x = t.Buffer(), y = t.Buffer();
  const TaskId first = t.Add(Lane::kCopy, {t.b.Write(x)}), second = t.Add(Lane::kCopy, {t.b.Write(y)});
  t.Add(Lane::kCompute, {t.b.Read(y)});
  const TaskId last = t.Add(Lane::kCompute, {t.b.Read(x)});
  const Program program = t.Assigned();
  EXPECT_THAT(program.task(first).waits_previous, ElementsAre(last));
  EXPECT_THAT(program.task(second).waits_previous, IsEmpty());
}

// c knows of the copy lane that a has ended, which says nothing of e behind it.
TEST(AssignWaits, WhatATaskOfTheStepBeforeKnewIsOfThatStep) {
  Tasks t;
  const BufferId x = t.Buffer(), p = t.Buffer();
  t.Add(Lane::kCopy, {t.b.Write(x)});
  const TaskId writer = t.Add(Lane::kCompute, {t.b.Write(p)}), e = t.Add(Lane::kCopy, {t.b.Read(p)}),
               c = t.Add(Lane::kComm, {t.b.Read(x), t.b.Read(p)});
  EXPECT_THAT(t.Assigned().task(writer).waits_previous, ElementsAre(e, c));
}

TEST(AssignWaits, AProgramThatHasWaitsIsAnInternalError) {
  Tasks t;
  const BufferId x = t.Buffer();
  t.Add(Lane::kCopy, {t.b.Write(x)});
  t.Add(Lane::kCompute, {t.b.Read(x)});
  Program program = t.Assigned();
  EXPECT_EQ(AssignWaits(program).code(), absl::StatusCode::kInternal);
}

// Waits and places are worked out for one device of each class; here they are checked device by device.
TEST(AssignWaits, OrdersTheTasksOfEveryDevice) {
  for (const char* plan : {"data", "hybrid"}) {
    const layers::LayerGraph graph = Model("lenet");
    const Program program = Lowered(graph, Named(plan, graph, 8));
    const program::Dependencies dependencies = DeriveDependencies(program);
    const program::HappensBefore order(program);
    for (const program::Task& task : program.tasks) {
      for (TaskId before : dependencies.within[task.id.value]) EXPECT_TRUE(order.Within(before, task.id)) << plan;
      for (TaskId before : dependencies.carried[task.id.value]) EXPECT_TRUE(order.Carried(before, task.id)) << plan;
    }
    const program::MemoryMap map =
        PlaceBuffers(program, [&](const program::Buffer& buffer) { return DenseSizeOf(program, buffer); });
    EXPECT_TRUE(VerifyMemoryMap(program, map).ok()) << VerifyMemoryMap(program, map);
    for (int64_t bytes : map.step_bytes) EXPECT_EQ(bytes, map.step_bytes[0]) << plan;
  }
}

}  // namespace
}  // namespace colonnade::partition
