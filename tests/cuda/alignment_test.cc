// What libraries are told of addresses.

#include "cuda/alignment.h"

#include "gtest/gtest.h"

namespace colonnade::cuda {
namespace {

const void* At(uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(AlignmentOf, IsTheLargestPowerOfTwoUpToSixteen) {
  EXPECT_EQ(AlignmentOf(At(4096), 4), 16u);
  EXPECT_EQ(AlignmentOf(At(48), 2), 16u);
  EXPECT_EQ(AlignmentOf(At(8), 4), 8u);
  EXPECT_EQ(AlignmentOf(At(4100), 4), 4u);
  EXPECT_EQ(AlignmentOf(At(6), 2), 2u);
}

TEST(AlignmentOf, NothingIsAtZeroAndMayBeAnything) { EXPECT_EQ(AlignmentOf(nullptr, 4), 16u); }

TEST(AlignmentOf, IsNeverBelowAnElement) { EXPECT_EQ(AlignmentOf(At(2), 4), 4u); }

}  // namespace
}  // namespace colonnade::cuda
