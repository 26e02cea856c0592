// Which task writes first to what is kept of a parameter, and how long a step was held up there.
#include "engine/first_writes.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/builder.h"
#include "tests/engine/alternation.h"

namespace colonnade::engine {
namespace {

using program::DType;
using program::Lane;
using program::Program;
using program::Region;
using program::StateKind;
using ::testing::ElementsAre;

// Parameters a and b; task 0 reads a on device 0, 1 writes b's momentum on device 1, 2 accumulates to a on device 1, 3
// writes a on device 0. Nothing writes to c.
struct Written {
  Program program;

  explicit Written() {
    program::Builder b("written", program::Mode::kTrain, 1, DType::kF32, {{"data", 2}});
    const program::Shape shape = {4};
    const auto add = [&](int device, const char* name) {
      return b.AddBuffer(device, name, DType::kF32, shape, program::Lifetime::kPersistent);
    };
    const auto a0 = add(0, "a"), a1 = add(1, "a"), b1 = add(1, "b"), m1 = add(1, "b.momentum"), c0 = add(0, "c");
    const auto piece = [&](program::BufferId buffer) { return program::Piece{buffer, Region::Whole(shape)}; };
    program::Parameter a{.name = "a", .shape = shape}, with_momentum{.name = "b", .shape = shape},
        c{.name = "c", .shape = shape};
    a.value() = {piece(a0), piece(a1)};
    with_momentum.value() = {piece(b1)};
    with_momentum.pieces(StateKind::kMomentum) = {piece(m1)};
    c.value() = {piece(c0)};
    for (const program::Parameter* p : {&a, &with_momentum, &c}) b.AddParameter(*p);
    const auto x0 = b.AddBuffer(0, "x", DType::kF32, shape), x1 = b.AddBuffer(1, "x", DType::kF32, shape);
    b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Read(a0), b.Write(x0)}, {}, {"0"});
    b.AddCompute(1, Lane::kCompute, program::Copy{}, {b.Read(b1), b.Write(m1)}, {}, {"1"});
    b.AddCompute(1, Lane::kCompute, program::Sum{}, {b.Read(x1), b.Accumulate(a1)}, {}, {"2"});
    b.AddCompute(0, Lane::kCompute, program::Copy{}, {b.Read(c0), b.Write(a0)}, {}, {"3"});
    program = std::move(b).Build();
  }
};

TEST(FirstWrites, AreOfAnyDeviceAndAnyKind) {
  const Written written;
  EXPECT_THAT(FirstWrites(written.program), ElementsAre(FirstWrite{1, 1}, FirstWrite{2, 0}, FirstWrite{4, 2}));
}

TEST(FirstWrites, AreOfEveryParameterInTrainingAndOfNoneInEvaluation) {
  for (const PlanOnDevices& on : {PlanOnDevices{"single", 1}, PlanOnDevices{"data", 2}, PlanOnDevices{"hybrid", 4}}) {
    const Program train = LoweredFor(on, program::Mode::kTrain), eval = LoweredFor(on, program::Mode::kEval);
    const std::vector<FirstWrite> writes = FirstWrites(train);
    EXPECT_EQ(writes.size(), train.parameters.size());
    EXPECT_LT(writes.back().task, train.tasks.size());
    for (const FirstWrite& write : FirstWrites(eval)) EXPECT_EQ(write.task, eval.tasks.size());
  }
}

TaskTime Between(int start_ms, int end_ms) { return {absl::Milliseconds(start_ms), absl::Milliseconds(end_ms)}; }

// Task 1 was held up from the beginning, which nothing tells: task 2 from 20 to 25 ms, task 3 from 10 to 17.
TEST(HeldUp, IsWhatReadyTasksWaitedOnTheDeviceWhereThatIsMost) {
  const Written written;
  const std::vector<FirstWrite> writes = FirstWrites(written.program);
  std::vector<TaskTime> times = {Between(0, 10), Between(5, 20), Between(25, 30), Between(17, 19)};
  EXPECT_EQ(HeldUp(written.program, writes, times), absl::Milliseconds(7));
  times[3] = Between(10, 19);
  EXPECT_EQ(HeldUp(written.program, writes, times), absl::Milliseconds(5));
}

// A task that waits for one of another lane is not ready before that has ended.
TEST(HeldUp, IsNotTheWaitForAnotherLane) {
  Written written;
  Program& program = written.program;
  program.tasks[0].device = 1;
  program.tasks[1].lane = Lane::kComm;
  const std::vector<TaskTime> times = {Between(0, 10), Between(0, 20), Between(21, 30), Between(10, 19)};
  EXPECT_EQ(HeldUp(program, FirstWrites(program), times), absl::Milliseconds(11));
  program.tasks[2].waits = {program.tasks[1].id};
  EXPECT_EQ(HeldUp(program, FirstWrites(program), times), absl::Milliseconds(1));
}

// All on one device, where tasks 1 and 2 write: task 1 waits for 3 ms, task 2 for 4, and task 3 for 5, with no write before.
TEST(HeldUp, IsTheWaitOfTheFirstComputationBehindAWrite) {
  Written written;
  Program& program = written.program;
  for (program::Task& task : program.tasks) task.device = 1;
  const std::vector<FirstWrite> writes = FirstWrites(program);
  const std::vector<TaskTime> times = {Between(0, 10), Between(13, 20), Between(24, 30), Between(35, 40)};
  EXPECT_EQ(HeldUp(program, writes, times), absl::Milliseconds(3 + 4));
  program.tasks[2].body = program::Exchange{};
  EXPECT_EQ(HeldUp(program, writes, times), absl::Milliseconds(3 + 5)) << "a transfer is no computation";
}

}  // namespace
}  // namespace colonnade::engine
