#include "cpu/threads/cores.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
