#include "cpu/threads/cores.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

// A tree of control groups, and a process's list of its own.
class Groups : public ::testing::Test {
 protected:
  Groups() : root_(testing::TempDir() + "groups_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
  }
  ~Groups() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::optional<double> Time() const { return CoresGrantedToProcess(root_ + "/list", root_); }

  const std::string root_;
};

TEST_F(Groups, TheLeastOfAGroupAndThoseAboveItCounts) {
  Write("list", "0::/above/own");
  Write("above/cpu.max", "150000 100000");
  Write("above/own/cpu.max", "400000 100000");
  EXPECT_THAT(Time(), Optional(1.5));
  Write("above/own/cpu.max", "50000 100000");
  EXPECT_THAT(Time(), Optional(0.5));
}

TEST_F(Groups, TheRootOfAContainerCounts) {
  Write("list", "0::/");
  Write("cpu.max", "300000 100000");
  EXPECT_THAT(Time(), Optional(3.0));
}

TEST_F(Groups, ThoseOfVersion1Count) {
  Write("list", "5:memory:/own\n3:cpu,cpuacct:/own");
  Write("cpu,cpuacct/own/cpu.cfs_quota_us", "250000");
  Write("cpu,cpuacct/own/cpu.cfs_period_us", "100000");
  EXPECT_THAT(Time(), Optional(2.5));
}

TEST_F(Groups, WithoutALimitThereIsNone) {
  EXPECT_EQ(Time(), std::nullopt);
  Write("list", "3:cpu,cpuacct:/\n0::/own");
  Write("own/cpu.max", "max 100000");
  Write("cpu,cpuacct/cpu.cfs_quota_us", "-1");
  Write("cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Time(), std::nullopt);
}

TEST(UsableCores, AreAtMostThoseOfTheAffinityMask) {
  const std::vector<int> cores = CoresOfProcess();
  ASSERT_FALSE(cores.empty());
  int usable = 0;
  std::thread([&] {
    KeepToCores({cores.front()});
    usable = UsableCores();
  }).join();
  EXPECT_EQ(usable, 1);
  EXPECT_LE(UsableCores(), static_cast<int>(cores.size()));
}

// A folder of the system's processors.
class Topology : public Groups {
 protected:
  void Add(int core, int package, const std::string& siblings) {
    const std::string folder = "cpu" + std::to_string(core) + "/topology/";
    Write(folder + "physical_package_id", std::to_string(package));
    Write(folder + "thread_siblings_list", siblings);
  }
};

TEST_F(Topology, ThreadsOfOneProcessorCoreAreNeighboursSoThatDevicesShareNone) {
  for (int core = 0; core < 8; ++core) {  // two packages by turns, of two cores with two threads each
    Add(core, core % 2, std::to_string(core % 4) + "," + std::to_string(core % 4 + 4));
  }
  const std::vector<int> cores = ByProcessorCore({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  EXPECT_THAT(cores, ElementsAre(0, 4, 2, 6, 1, 5, 3, 7));
  EXPECT_THAT(CoresOfDevice(cores, 0, 2), ElementsAre(0, 4, 2, 6));
  EXPECT_THAT(ByProcessorCore({2, 3, 6}, root_), ElementsAre(2, 6, 3)) << "those of the process alone";
}

TEST_F(Topology, NeighboursByNumberStaySo) {
  for (int core = 0; core < 12; ++core) {  // ten is behind nine
    Add(core, 0, std::to_string(core / 2 * 2) + "-" + std::to_string(core / 2 * 2 + 1));
  }
  EXPECT_THAT(ByProcessorCore({0, 1, 8, 9, 10, 11}, root_), ElementsAre(0, 1, 8, 9, 10, 11));
}

TEST_F(Topology, WhereTheSystemDoesNotSayTheOrderStays) {
  Add(0, 0, "0,2");
  EXPECT_THAT(ByProcessorCore({0, 1, 2}, root_), ElementsAre(0, 1, 2));
}

TEST(CoresOfDevice, PartsAreDisjointAndTogetherAll) {
  const std::vector<int> cores = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14};
  for (int devices = 1; devices <= 11; ++devices) {
    std::vector<int> all;
    size_t least = cores.size(), most = 0;
    for (int d = 0; d < devices; ++d) {
      const std::vector<int> part = CoresOfDevice(cores, d, devices);
      all.insert(all.end(), part.begin(), part.end());
      least = std::min(least, part.size());
      most = std::max(most, part.size());
    }
    EXPECT_EQ(all, cores) << devices;
    EXPECT_LE(most - least, 1u) << devices;
  }
}

TEST(CoresOfDevice, FewerCoresThanDevicesMeansAnyCore) {
  for (int d = 0; d < 3; ++d) EXPECT_THAT(CoresOfDevice({0, 1}, d, 3), IsEmpty());
}

TEST(KeepToCores, HoldsForTheThreadAndForThoseThatItStarts) {
  const std::vector<int> cores = CoresOfProcess();
  ASSERT_FALSE(cores.empty());
  std::vector<int> own, of_child;
  std::thread([&] {
    KeepToCores({cores.back()});
    own = CoresOfProcess();
    std::thread([&] { of_child = CoresOfProcess(); }).join();
  }).join();
  EXPECT_THAT(own, ElementsAre(cores.back()));
  EXPECT_THAT(of_child, ElementsAre(cores.back()));
  EXPECT_EQ(CoresOfProcess(), cores);
}

}  // namespace
}  // namespace colonnade::cpu
