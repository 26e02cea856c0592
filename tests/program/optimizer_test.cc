#include "program/optimizer.h"

#include "gtest/gtest.h"
#include "program/epsilon.h"

namespace colonnade::program {
namespace {

TEST(CheckOptimizer, TakesTheLeastAndTheMostThatThereIs) {
  EXPECT_TRUE(CheckOptimizer(Sgd{.momentum = 0}).ok());
  EXPECT_TRUE(CheckOptimizer(Sgd{.momentum = 1}).ok());
  EXPECT_TRUE(CheckOptimizer(Lars{.momentum = 0, .trust = 0}).ok());
  EXPECT_TRUE(CheckOptimizer(AdamW{.beta1 = 0, .beta2 = 0}).ok());
  EXPECT_TRUE(CheckOptimizer(AdamW{.epsilon = kLeastAdamEpsilon}).ok());
}

TEST(CheckOptimizer, RefusesWhatNoUpdateCanComputeWith) {
  EXPECT_FALSE(CheckOptimizer(Lars{.trust = -1e-3}).ok());
  EXPECT_FALSE(CheckOptimizer(Lars{.trust = 1e39}).ok()) << "f32 does not hold it";
  EXPECT_FALSE(CheckOptimizer(Lars{.momentum = 1.5}).ok());
  EXPECT_FALSE(CheckOptimizer(AdamW{.epsilon = 0.99 * kLeastAdamEpsilon}).ok());
  EXPECT_FALSE(CheckOptimizer(AdamW{.beta1 = 1}).ok());
  EXPECT_FALSE(CheckOptimizer(AdamW{.beta2 = 1}).ok());
}

TEST(DeviceCount, IsThatOfAMeshOfUpToTheMostDevices) {
  EXPECT_EQ(DeviceCount({}), 1);
  EXPECT_EQ(DeviceCount({{"a", 2}, {"b", 3}}), 6);
  EXPECT_EQ(DeviceCount({{"a", kMostDevices}}), kMostDevices);
  EXPECT_EQ(DeviceCount({{"a", kMostDevices / 2}, {"b", 2}}), kMostDevices);
  EXPECT_EQ(DeviceCount({{"a", kMostDevices + 1}}), std::nullopt);
  EXPECT_EQ(DeviceCount({{"a", kMostDevices}, {"b", 2}}), std::nullopt);
  EXPECT_EQ(DeviceCount({{"a", 0}}), std::nullopt);
}

}  // namespace
}  // namespace colonnade::program
