// Which members of a bucket an update treats alike.

#include "engine/layouts.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> RangesOf(const program::Factors& rates, const program::Factors& decays, bool by_member) {
  const std::vector<MemberRange> members = {{0, 0, 10}, {1, 10, 30}, {2, 30, 35}, {3, 35, 40}};
  std::vector<std::string> ranges;
  for (const UpdateRange& r : UpdateRangesOf(members, rates, decays, /*weight_decay=*/0.5, by_member)) {
    ranges.push_back(absl::StrFormat("%d: %d to %d by %g, %g", r.member, r.begin, r.end, r.rate, r.weight_decay));
  }
  return ranges;
}

TEST(UpdateRanges, AreOfNeighboursWithTheSameFactors) {
  EXPECT_THAT(RangesOf({}, {}, false), ElementsAre("0: 0 to 40 by 1, 0.5"));
  EXPECT_THAT(RangesOf({1, 1, 2, 1}, {}, false),
              ElementsAre("0: 0 to 30 by 1, 0.5", "2: 30 to 35 by 2, 0.5", "3: 35 to 40 by 1, 0.5"));
  EXPECT_THAT(RangesOf({}, {0, 1, 1, 1}, false), ElementsAre("0: 0 to 10 by 1, 0", "1: 10 to 40 by 1, 0.5"));
}

TEST(UpdateRanges, AreOfOneMemberWhereEachHasATrustRatio) {
  EXPECT_THAT(RangesOf({}, {}, true), ElementsAre("0: 0 to 10 by 1, 0.5", "1: 10 to 30 by 1, 0.5", "2: 30 to 35 by 1, 0.5",
                                                  "3: 35 to 40 by 1, 0.5"));
}

}  // namespace
}  // namespace colonnade::engine
