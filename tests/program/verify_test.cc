// Whole Programs that Verify accepts. Each of its rules is broken in a test of its own: verify_structure_test.cc, _operands,
// _meetings and _overlap.
#include "program/verify.h"

#include <string>

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
