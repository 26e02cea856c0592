#include "cuda/load/queue.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::cuda {
namespace {

using program::Lane;
using program::TaskId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Log : public Issuer {
 public:
  void IssueTask(TaskId task, int64_t step) override { lines.push_back(absl::StrCat("task ", task.value, "@", step)); }
  void IssueMeeting(absl::Span<const TaskId> sides, int64_t step) override {
    lines.push_back(absl::StrCat("meeting of ", sides.size(), " at ", sides[0].value, "@", step));
  }
  void IssueWait(int device, Lane lane, TaskId task, int64_t step) override {
    lines.push_back(absl::StrCat("device ", device, " lane ", static_cast<int>(lane), " waits for ", task.value, "@", step));
  }
  std::vector<std::string> lines;
};

// Tasks 0 and 1: a sum on each of two devices; 2 and 3: an exchange of the results on the comm lanes; 4 and 5: sums of
// those.
program::Program TwoDevices() {
  program::Builder builder("two", program::Mode::kTrain, 1, program::DType::kF32, {{"data", 2}});
  std::vector<program::BufferId> x, y, z;
  for (int d = 0; d < 2; ++d) {
    x.push_back(builder.AddBuffer(d, "x", program::DType::kF32, {4}, program::Lifetime::kPersistent));
    y.push_back(builder.AddBuffer(d, "y", program::DType::kF32, {4}));
    z.push_back(builder.AddBuffer(d, "z", program::DType::kF32, {4}));
  }
  for (int d = 0; d < 2; ++d) {
    builder.AddCompute(d, Lane::kCompute, program::Sum{}, {builder.Read(x[d]), builder.Write(y[d])}, {}, {"sum"});
  }
  builder.AddExchange(0, {{builder.Read(y[0]), builder.Write(z[0])}, {}}, 1, {{builder.Read(y[1]), builder.Write(z[1])}, {}},
                      Lane::kComm, {"exchange"});
  for (int d = 0; d < 2; ++d) {
    builder.AddCompute(d, Lane::kCompute, program::Sum{}, {builder.Read(z[d]), builder.Write(x[d])}, {}, {"sum"});
  }
  return std::move(builder).Build();
}

TEST(Queues, AMeetingIsIssuedOnceForAllSidesAndWhatWaitsForItAfterwards) {
  const program::Program program = TwoDevices();
  Log log;
  Queues queues(program, log);
  queues.Launch(TaskId{0}, 0);
  queues.Await(0, Lane::kComm, TaskId{0}, 0);
  queues.Launch(TaskId{2}, 0);
  queues.Await(0, Lane::kCompute, TaskId{2}, 0);
  queues.Launch(TaskId{4}, 0);
  EXPECT_THAT(log.lines, ElementsAre("task 0@0", "device 0 lane 1 waits for 0@0"));
  EXPECT_EQ(queues.held(), 3);
  queues.Launch(TaskId{1}, 0);
  queues.Await(1, Lane::kComm, TaskId{1}, 0);
  log.lines.clear();
  queues.Launch(TaskId{3}, 0);
  EXPECT_THAT(log.lines, ElementsAre("meeting of 2 at 2@0", "device 0 lane 0 waits for 2@0", "task 4@0"));
  EXPECT_EQ(queues.held(), 0);
}

TEST(Queues, AWaitForATaskThatIsNotLaunchedHoldsItsLaneAlone) {
  const program::Program program = TwoDevices();
  Log log;
  Queues queues(program, log);
  queues.Await(0, Lane::kComm, TaskId{0}, 0);
  queues.Launch(TaskId{2}, 0);
  EXPECT_THAT(log.lines, IsEmpty());
  queues.Launch(TaskId{1}, 0);
  EXPECT_THAT(log.lines, ElementsAre("task 1@0"));
  EXPECT_EQ(queues.held(), 2);
}

TEST(Queues, AWaitForTheStepBeforeIsNotHeldByThisOne) {
  const program::Program program = TwoDevices();
  Log log;
  Queues queues(program, log);
  queues.Launch(TaskId{0}, 4);
  log.lines.clear();
  queues.Await(0, Lane::kComm, TaskId{0}, 4);
  queues.Launch(TaskId{0}, 5);
  EXPECT_THAT(log.lines, ElementsAre("device 0 lane 1 waits for 0@4", "task 0@5"));
}

}  // namespace
}  // namespace colonnade::cuda
