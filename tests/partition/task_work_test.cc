#include "partition/task_work.h"

#include "gtest/gtest.h"

namespace colonnade::partition {
namespace {

using program::CollectiveKind;

TEST(BytesSent, IsWhatOneMemberGivesTheOthers) {
  EXPECT_EQ(BytesSent(CollectiveKind::kAllGather, 120, 4), 120 * 3);
  EXPECT_EQ(BytesSent(CollectiveKind::kReduceScatter, 120, 4), 30 * 3);
  EXPECT_EQ(BytesSent(CollectiveKind::kAllToAll, 120, 4), 30 * 3);
  EXPECT_EQ(BytesSent(CollectiveKind::kAllReduce, 120, 4), 2 * 30 * 3);
}

TEST(BytesSent, ARootReceivesAReduceAndSendsABroadcast) {
  EXPECT_EQ(BytesSent(CollectiveKind::kReduce, 120, 4, true), 0);
  EXPECT_EQ(BytesSent(CollectiveKind::kReduce, 120, 4, false), 120);
  EXPECT_EQ(BytesSent(CollectiveKind::kBroadcast, 120, 4, true), 120 * 3);
  EXPECT_EQ(BytesSent(CollectiveKind::kBroadcast, 120, 4, false), 0);
}

TEST(UpdateFlops, AreSixOfAnElement) { EXPECT_EQ(UpdateFlops(10), 60); }

}  // namespace
}  // namespace colonnade::partition
