#include "cpu/threads/core_waits.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_now.h"
#include "cpu/threads/cores.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/counts_core_waits.h"
#include "tests/folder.h"

namespace colonnade::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr absl::Duration kMs = absl::Milliseconds(1);

class CoreWaitsTest : public Folder {
 protected:
  void WriteThread(int number, const std::string& name, const std::string& schedstat) {
    const std::string folder = In(absl::StrCat("tasks/", number));
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/comm") << name << '\n';
    if (!schedstat.empty()) std::ofstream(folder + "/schedstat") << schedstat;
  }
};

TEST_F(CoreWaitsTest, AreOfThreadsThatComputeOnDevices) {
  WriteThread(11, "device 0", "900 2000 3\n");
  WriteThread(12, "colonnade", "900 5000 3\n");
  WriteThread(13, "device 10", "1 0 1\n");
  WriteThread(14, "device 2", "");  // has ended meanwhile
  EXPECT_THAT(CoreWaits(In("tasks")), ElementsAre(Pair(11, absl::Nanoseconds(2000)), Pair(13, absl::ZeroDuration())));
  EXPECT_THAT(CoreWaits(In("nowhere")), IsEmpty());
}

TEST(LongestWait, IsThatOfAThreadThatIsInBoth) {
  EXPECT_EQ(LongestWait({{1, 5 * kMs}, {2, 30 * kMs}}, {{1, 9 * kMs}, {2, 31 * kMs}, {3, 70 * kMs}}), 4 * kMs);
  EXPECT_EQ(LongestWait({{1, 5 * kMs}}, {{2, 9 * kMs}}), absl::ZeroDuration());
  EXPECT_EQ(LongestWait({}, {}), absl::ZeroDuration());
}

// Two threads that want one core all the time get half of it each.
TEST(CoreWaits, GrowWhileAnotherThreadHasTheCore) {
  const std::vector<int> cores = CoresOfProcess();
  ASSERT_FALSE(cores.empty());
  std::atomic<int> named{0};
  std::atomic<bool> stop{false};
  const auto spin = [&] {
    KeepToCores({cores.front()});
    NameComputeThread(1);
    ++named;
    while (!stop) {
    }
  };
  std::thread first(spin), second(spin);
  while (named < 2) absl::SleepFor(kMs);
  const absl::Time begin = base::SteadyNow();
  const std::map<int, absl::Duration> before = CoreWaits();
  absl::SleepFor(400 * kMs);
  const absl::Duration waited = LongestWait(before, CoreWaits()), passed = base::SteadyNow() - begin;
  stop = true;
  first.join();
  second.join();
  if (!CountsCoreWaits()) GTEST_SKIP() << "this system does not count how long threads wait for a core";
  EXPECT_GT(waited, passed / 4);
  EXPECT_LT(waited, passed * 1.5);  // a wait that began before counts once it ends
}

}  // namespace
}  // namespace colonnade::cpu
