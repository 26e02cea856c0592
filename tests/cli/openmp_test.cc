// The command where OpenMP's own variables, or the system, allow fewer threads than there are cores, or bind threads to
// cores: it ends, with a message or with the threads that it gets.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/paths.h"

namespace colonnade::cli {
namespace {

using ::testing::HasSubstr;

struct Trained {
  int code;
  std::string output;  // of both streams
};

constexpr int kTimedOut = 124;

// The command under `environment`, which is words of env(1), whatever binds threads where the tests run.
Trained RunUnder(const std::string& environment, const std::string& arguments) {
  const std::string unbound = "env -u OMP_PROC_BIND -u OMP_PLACES -u GOMP_CPU_AFFINITY ";
  const std::string line = unbound + environment + " timeout -k 10 240 " + std::string(kCommand) + " " + arguments + " 2>&1";
  FILE* pipe = ::popen(line.c_str(), "r");
  Trained result{-1, ""};
  if (pipe == nullptr) return result;
  std::array<char, 4096> part;
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) result.output.append(part.data(), size);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : kTimedOut;
  return result;
}

// Two steps.
Trained Train(const std::string& environment, const std::string& flags) {
  return RunUnder(environment, "train --model=two_column --data=digits --batch=32 --steps=2 " + flags);
}

TEST(OpenMp, ATeamThatTheUserLimitsIsRefusedWithTheNumberThatWorks) {
  const Trained result = Train("OMP_THREAD_LIMIT=3", "--threads-per-device=4");
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("4 were asked for, but OpenMP starts 3; ask for 3, or raise OMP_THREAD_LIMIT"));
}

TEST(OpenMp, TheDefaultKeepsToTheLimitOfThreads) {
  const Trained result = Train("OMP_THREAD_LIMIT=1", "");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1 CPU device of 1 thread,"));
}

TEST(OpenMp, TheDefaultKeepsToTheNumberOfThreads) {
  const Trained result = Train("OMP_NUM_THREADS=1", "");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1 CPU device of 1 thread,"));
}

TEST(OpenMp, TheDefaultKeepsToTheAffinityMask) {
  const Trained result = Train("taskset -c 0", "");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1 CPU device of 1 thread,"));
}

// The words of a run that say what it runs on: "1 CPU device of 2 threads, ...".
std::string Devices(const Trained& result) {
  const size_t begin = result.output.find("CPU device"), end = result.output.find(',', begin);
  return begin == std::string::npos ? result.output : result.output.substr(begin, end - begin);
}

TEST(OpenMp, CoresAreAsManyWhereItWouldBindThreadsToThem) {
#ifdef __clang__
  GTEST_SKIP() << "skipped: Clang's OpenMP does not see the places of GCC's, which oneDNN brings and which binds first";
#endif
  const std::string unbound = Devices(Train("OMP_PROC_BIND=false", ""));
  for (const char* bound : {"OMP_PROC_BIND=true", "OMP_PROC_BIND=spread", "OMP_PLACES=threads"}) {
    EXPECT_EQ(Devices(Train(bound, "")), unbound) << bound;
  }
  EXPECT_EQ(Devices(Train("OMP_PLACES={0}", "")), "CPU device of 1 thread");
}

TEST(OpenMp, BindsNoThreadsOfDevices) {
  const Trained result = Train("OMP_PROC_BIND=true", "--devices=2 --plan=data");
  EXPECT_EQ(result.code, 0) << result.output;
}

// Of a bug report one wants what the user had set.
TEST(OpenMp, InfoSaysWhichBindingWasEnded) {
  EXPECT_THAT(RunUnder("OMP_PROC_BIND=true OMP_PLACES=cores", "info").output,
              HasSubstr("COLONNADE_ENDED_BINDING=OMP_PROC_BIND=true OMP_PLACES=cores\n"));
}

TEST(OpenMp, TeamsThatMayShrinkDoNotShrink) {
  const Trained result = Train("OMP_DYNAMIC=true", "--threads-per-device=4");
  EXPECT_EQ(result.code, 0) << result.output;
}

TEST(OpenMp, TeamsAreOpenedWhereNoLevelIsAllowed) {
  const Trained result = Train("OMP_MAX_ACTIVE_LEVELS=0", "--threads-per-device=2");
  EXPECT_EQ(result.code, 0) << result.output;
}

// What OpenMP said last: a command that starts itself once more says it twice.
std::string SpinCount(const std::string& environment) {
  const std::string output = Train("OMP_DISPLAY_ENV=verbose " + environment, "").output;
  const size_t last = output.rfind("GOMP_SPINCOUNT");
  return last == std::string::npos ? output : output.substr(last, output.find('\n', last) - last);
}

TEST(OpenMp, WaitingThreadsSpinShortlyUnlessTheUserSaysOtherwise) {
  EXPECT_EQ(SpinCount(""), "GOMP_SPINCOUNT = '3000'");
  EXPECT_EQ(SpinCount("GOMP_SPINCOUNT=77"), "GOMP_SPINCOUNT = '77'");
  EXPECT_EQ(SpinCount("OMP_WAIT_POLICY=passive"), "GOMP_SPINCOUNT = '0'");
}

}  // namespace
}  // namespace colonnade::cli
