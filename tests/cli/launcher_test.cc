#include "cli/command_line/launcher.h"

#include <cstdlib>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;

std::string NoteOf(const std::map<std::string, std::string>& environment) {
  return LauncherNote([&](const char* variable) {
    const auto found = environment.find(variable);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LauncherNote, NamesWhatHasStartedSeveralProcesses) {
  EXPECT_THAT(NoteOf({{"WORLD_SIZE", "4"}, {"RANK", "1"}}),
              HasSubstr("process 1 of 4 that torchrun or its like has started"));
  EXPECT_THAT(NoteOf({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}), HasSubstr("Open MPI"));
  EXPECT_THAT(NoteOf({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}), HasSubstr("mpiexec or srun"));
  EXPECT_THAT(NoteOf({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}}), HasSubstr(" srun has"));
}

TEST(LauncherNote, IsEmptyWhereThisIsTheOnlyProcess) {
  EXPECT_EQ(NoteOf({}), "");
  EXPECT_EQ(NoteOf({{"WORLD_SIZE", "1"}, {"RANK", "0"}}), "");
  EXPECT_EQ(NoteOf({{"WORLD_SIZE", "many"}, {"RANK", "0"}}), "");
  EXPECT_EQ(NoteOf({{"WORLD_SIZE", "4"}}), "") << "of a shell, not of a process that torchrun has started";
  EXPECT_EQ(NoteOf({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}), "") << "of a job's own script";
}

TEST_F(Command, ARunThatWasStartedSeveralTimesSaysSo) {
  const auto as_second_of_two = [] {
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("RANK", "1", 1);
  };
  const Result r = Wait(Start("train --model=two_column --data=digits --width=0.25 --steps=1", as_second_of_two));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("warning: this is process 1 of 2 that torchrun or its like has started"));
}

}  // namespace
}  // namespace colonnade::cli
