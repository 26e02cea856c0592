// Whole Programs that Verify accepts. Each of its rules is broken in a test of its own: verify_structure_test.cc, _operands,
// _meetings and _overlap.
#include "program/verify.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "program/builder.h"
#include "tests/program/breakages.h"
#include "tests/program/sample_programs.h"

namespace colonnade::program {
namespace {

TEST(Verify, AcceptsAScheduledProgram) { ExpectVerified(TwoColumns()); }
TEST(Verify, AcceptsEveryOp) { ExpectVerified(EveryOp()); }
TEST(Verify, AcceptsEveryCollective) { ExpectVerified(EveryCollective()); }
TEST(Verify, AcceptsTheEmptyProgram) { ExpectVerified(Builder("empty", Mode::kEval, 0, DType::kF32, {}).Build()); }

TEST(Verify, AcceptsAnUnscheduledProgramOnOneLane) {
  Program program = TwoColumnsUnscheduled();
  for (Task& task : program.tasks) task.lane = Lane::kCompute;
  ExpectVerified(program);
}

// Devices whose tasks and buffers are alike may still differ in what is declared of them.
TEST(Verify, AsksForTheStateOfEachDevice) {
  Builder b("replicas", Mode::kEval, 1, DType::kF32, {{"data", 2}});
  Parameter w{.name = "w", .shape = {8}};
  for (int d : {0, 1}) {
    const BufferId buffer = b.AddBuffer(d, "w", DType::kF32, w.shape, Lifetime::kPersistent);
    w.value().push_back({buffer, Region::Whole(w.shape)});
    b.AddCompute(d, Lane::kCompute, Copy{}, {b.Read(buffer), b.Write(b.AddBuffer(d, "y", DType::kF32, w.shape))}, {}, {"w"});
  }
  b.AddParameter(std::move(w));
  Program program = std::move(b).Build();
  ExpectVerified(program);
  program.parameters[0].value().pop_back();
  EXPECT_EQ(
      std::string(Verify(program).message()),
      "initialised: task 1 (copy of w, device 1) reads [0:8] of buffer 2 \"w\", but no task before it writes [0:8]; it "
      "persists, so expected a parameter whose state lies there");
}

TEST(Verify, NamesTasksAndBufferOfAMissingWait) {
  Program program = TwoColumns();
  Task& copy = Find(program, "copy");
  const int32_t exchange = Find(program, "exchange").id.value;
  copy.waits.clear();
  EXPECT_EQ(
      std::string(Verify(program).message()),
      absl::StrCat("order: task ", copy.id.value, " (copy of flatten, device 0) reads buffer 3 \"conv.whole\" that task ",
                   exchange, " (exchange of conv, device 0) writes, but nothing orders them; add a wait"));
}

}  // namespace
}  // namespace colonnade::program
