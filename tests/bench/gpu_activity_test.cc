#include "bench/gpu_activity.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace colonnade::bench {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::Pair;

constexpr uint64_t kUs = 1000;

// One nanosecond after the other.
Occupancy ReferenceOccupancy(const std::vector<Interval>& intervals, uint64_t gap_limit_ns) {
  Occupancy o;
  if (intervals.empty()) return o;
  uint64_t begin = intervals.front().begin_ns, end = 0;
  for (const Interval& i : intervals) {
    begin = std::min(begin, i.begin_ns);
    end = std::max(end, i.end_ns);
  }
  uint64_t gap = 0;
  for (uint64_t t = begin; t < end; ++t) {
    const bool busy =
        std::any_of(intervals.begin(), intervals.end(), [t](const Interval& i) { return i.begin_ns <= t && t < i.end_ns; });
    if (!busy) {
      ++gap;
      continue;
    }
    (gap < gap_limit_ns ? o.short_gaps_ns : o.long_gaps_ns) += gap;
    gap = 0;
    ++o.busy_ns;
  }
  o.span_ns = end - begin;
  return o;
}

TEST(OccupancyOf, EqualsTheSumOverNanoseconds) {
  std::mt19937 random(1);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Interval> intervals(below(12));
    const uint64_t longest = 1 + below(40);
    for (Interval& i : intervals) {
      i.begin_ns = 100 + below(300);
      i.end_ns = i.begin_ns + 1 + below(longest);
    }
    const uint64_t limit = below(30);
    const Occupancy got = OccupancyOf(intervals, limit), expected = ReferenceOccupancy(intervals, limit);
    EXPECT_EQ(got.span_ns, expected.span_ns);
    EXPECT_EQ(got.busy_ns, expected.busy_ns);
    EXPECT_EQ(got.short_gaps_ns, expected.short_gaps_ns);
    EXPECT_EQ(got.long_gaps_ns, expected.long_gaps_ns);
    EXPECT_EQ(got.busy_ns + got.short_gaps_ns + got.long_gaps_ns, got.span_ns);
  }
}

TEST(OccupancyOf, AGapOfTheLimitIsLong) {
  const Occupancy o = OccupancyOf({{100, 110}, {119, 120}, {130, 140}, {151, 160}}, /*gap_limit_ns=*/10);
  EXPECT_EQ(o.busy_ns, 30);
  EXPECT_EQ(o.short_gaps_ns, 9);
  EXPECT_EQ(o.long_gaps_ns, 21);
}

TEST(OccupancyOf, EmptyIntervalsBoundGaps) {
  const Occupancy o = OccupancyOf({{100, 100}, {105, 105}, {108, 109}}, /*gap_limit_ns=*/5);
  EXPECT_EQ(o.span_ns, 9);
  EXPECT_EQ(o.busy_ns, 1);
  EXPECT_EQ(o.short_gaps_ns, 3);
  EXPECT_EQ(o.long_gaps_ns, 5);
}

TEST(AllocationLog, PeakOfEachGpuWhateverTheOrderOfEvents) {
  AllocationLog log;
  log.Release(0x100, 20);
  log.Allocate(0, 0x100, 64, 10);
  log.Allocate(0, 0x100, 16, 30);  // the address anew
  log.Allocate(0, 0x200, 40, 25);
  log.Allocate(1, 0x300, 7, 15);
  log.Release(0x999, 16);  // allocated before recording began
  EXPECT_THAT(log.PeakBytes(), ElementsAre(Pair(0, 64), Pair(1, 7)));
  log.Allocate(0, 0x400, 10, 40);
  EXPECT_THAT(log.PeakBytes(), ElementsAre(Pair(0, 66), Pair(1, 7)));
}

TEST(AllocationLog, AnAddressAllocatedTwiceCountsOnce) {
  AllocationLog log;
  log.Allocate(0, 0x100, 64, 10);
  log.Allocate(0, 0x100, 65, 20);
  EXPECT_THAT(log.PeakBytes(), ElementsAre(Pair(0, 65)));
}

TEST(AllocationLog, ManyEventsInFewPlaces) {
  std::mt19937 random(2);
  AllocationLog all, few(/*pending_events=*/16);
  std::vector<uint64_t> live;
  for (uint64_t time = 1; time < 2000; ++time) {
    // Times are permuted within blocks of 8, so that events come late.
    const uint64_t at = time ^ 7;
    if (live.size() > 20 && random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      for (AllocationLog* log : {&all, &few}) log->Release(live.back(), at);
      live.pop_back();
    } else {
      live.push_back(0x1000 + time);
      const uint64_t bytes = 1 + random() % 100;
      for (AllocationLog* log : {&all, &few}) log->Allocate(0, live.back(), bytes, at);
    }
  }
  EXPECT_EQ(few.PeakBytes(), all.PeakBytes());
}

TEST(ActivityLog, ReportsTheLastHalfOfEachGpu) {
  ActivityLog log;
  // The first half idles; the second half is 4 activities of 10 us, 40 us (short) and 60 us (long) apart, then at once.
  for (uint64_t i = 0; i < 4; ++i) log.Add(0, "warm_up", false, (1 + i * 1000) * kUs, (2 + i * 1000) * kUs);
  log.Add(0, "fill", false, 10'120 * kUs, 10'130 * kUs);
  log.Add(0, "_Z3addPfi", false, 10'000 * kUs, 10'010 * kUs);
  log.Add(0, "_Z3addPfi", false, 10'050 * kUs, 10'060 * kUs);
  log.Add(0, "copy", true, 10'130 * kUs, 10'200 * kUs);
  log.Add(2, "fill", false, 5 * kUs, 6 * kUs);
  log.Add(2, "fill", false, 0, 0);
  const Json report = log.Report({{0, 1234}, {1, 5}});
  EXPECT_EQ(report["gap_limit_us"], 50);
  ASSERT_EQ(report["gpus"].size(), 3);

  const Json& gpu = report["gpus"][0];
  EXPECT_EQ(gpu["gpu"], 0);
  EXPECT_EQ(gpu["peak_allocated_bytes"], 1234);
  EXPECT_EQ(gpu["activities"], 8);
  EXPECT_EQ(gpu["activities_without_times"], 0);
  const Json& all = gpu["steady"]["all"];
  EXPECT_EQ(all["activities"], 4);
  EXPECT_DOUBLE_EQ(all["span_ms"], 0.2);
  EXPECT_DOUBLE_EQ(all["busy_share"], 0.5);
  EXPECT_DOUBLE_EQ(all["idle_share_short_gaps"], 0.2);
  EXPECT_DOUBLE_EQ(all["idle_share_long_gaps"], 0.3);
  const Json& device = gpu["steady"]["without_host_copies"];
  EXPECT_EQ(device["activities"], 3);
  EXPECT_DOUBLE_EQ(device["span_ms"], 0.13);
  const Json& top = gpu["steady"]["top"];
  ASSERT_EQ(top.size(), 3);
  EXPECT_EQ(top[0]["name"], "copy");
  EXPECT_EQ(top[1]["name"], "add(float*, int)");
  EXPECT_EQ(top[1]["count"], 2);
  EXPECT_DOUBLE_EQ(top[1]["total_ms"], 0.02);
  EXPECT_DOUBLE_EQ(top[1]["share_of_busy"], 0.2);
  EXPECT_EQ(top[2]["name"], "fill");

  EXPECT_EQ(report["gpus"][1]["peak_allocated_bytes"], 5);
  EXPECT_EQ(report["gpus"][1]["steady"]["all"]["activities"], 0);
  EXPECT_EQ(report["gpus"][2]["peak_allocated_bytes"], 0);
  EXPECT_EQ(report["gpus"][2]["activities_without_times"], 1);
  EXPECT_EQ(report["gpus"][2]["steady"]["all"]["busy_share"], 1);
}

TEST(ActivityLog, ReportsAtMost40Names) {
  ActivityLog log;
  for (uint64_t i = 0; i < 200; ++i) log.Add(0, "kernel " + std::to_string(i), false, 1 + 1000 * i, 1 + 1000 * i + i);
  const Json report = log.Report({});
  const Json& top = report["gpus"][0]["steady"]["top"];
  ASSERT_EQ(top.size(), 40);
  EXPECT_EQ(top[0]["name"], "kernel 199");
  EXPECT_EQ(top[39]["name"], "kernel 160");
}

TEST(ActivityLog, DropsTheEarlierHalfWhenFull) {
  ActivityLog all, few(/*capacity=*/100);
  std::vector<uint64_t> begins(1000);
  for (uint64_t i = 0; i < begins.size(); ++i) begins[i] = 1 + 100 * (i ^ 5);  // not quite in order
  for (const uint64_t begin : begins) {
    for (ActivityLog* log : {&all, &few}) log->Add(0, begin % 3 == 0 ? "a" : "b", false, begin, begin + begin % 90);
  }
  const Json report = few.Report({});
  EXPECT_EQ(report["gpus"][0]["activities"], 1000);
  const std::ptrdiff_t kept = report["gpus"][0]["steady"]["all"]["activities"];
  EXPECT_GE(kept, 50);
  EXPECT_LE(kept, 100);
  // As if what is kept were the last half of a shorter run.
  std::sort(begins.begin(), begins.end());
  ActivityLog last;
  for (auto begin = begins.end() - 2 * kept; begin != begins.end(); ++begin) {
    last.Add(0, *begin % 3 == 0 ? "a" : "b", false, *begin, *begin + *begin % 90);
  }
  Json expected = last.Report({});
  EXPECT_EQ(report["gpus"][0]["steady"]["all"], expected["gpus"][0]["steady"]["all"]);
  EXPECT_EQ(all.Report({})["gpus"][0]["steady"]["all"]["activities"], 500);
}

TEST(ActivityLog, OfNothing) { EXPECT_TRUE(ActivityLog().Report({})["gpus"].empty()); }

}  // namespace
}  // namespace colonnade::bench
