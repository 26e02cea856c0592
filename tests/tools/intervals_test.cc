// Steps on draws of a profile: where the interval ends, how often an order holds, and that fits are repeated in each draw.
#include "tools/intervals.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/moves_bytes.h"

namespace colonnade::tools {
namespace {

constexpr int kDraws = 2000;

DrawnSteps Drawn(const engine::Machine& machine, std::vector<const program::RepresentativeProgram*> programs,
                 const Refit& refit = nullptr, uint64_t seed = 1) {
  absl::StatusOr<DrawnSteps> drawn = DrawSteps(machine, programs, refit, {.draws = kDraws, .seed = seed});
  EXPECT_TRUE(drawn.ok()) << drawn.status();
  return *std::move(drawn);
}

TEST(DrawSteps, ReachFromTheFifthToTheNinetyFifthPercentile) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);  // 4 ms
  engine::Machine machine = CertainMachine(1);
  machine.memory_bytes_per_sec.within = 2;
  const Interval interval = Drawn(machine, {&program}).Of(0);
  // The logarithm of the rate is even from -log 2 to log 2: nine tenths of the draws are within 2 to the power of 0.9.
  EXPECT_NEAR(std::log2(interval.low / 0.004), -0.9, 0.03);
  EXPECT_NEAR(std::log2(interval.high / 0.004), 0.9, 0.03);
}

TEST(DrawSteps, FewReachFromTheLeastToTheMost) {
  std::vector<std::vector<double>> seconds;
  for (int draw = 0; draw < 19; ++draw) seconds.push_back({1.0 + (draw * 7) % 19});
  const Interval few = DrawnSteps(seconds).Of(0);
  EXPECT_EQ(few.low, 1);
  EXPECT_EQ(few.high, 19);
  seconds.push_back({20});
  const Interval enough = DrawnSteps(seconds).Of(0);
  EXPECT_GT(enough.low, 1);
  EXPECT_LT(enough.high, 20);
}

TEST(DrawSteps, CountHowOftenAnOrderHolds) {
  const program::RepresentativeProgram computes = MovesBytes(4'000'000), sends = MovesBytes(1'000'000, 5'000'000);
  engine::Machine machine = CertainMachine(2);
  machine.memory_bytes_per_sec.within = 2;
  const DrawnSteps drawn = Drawn(machine, {&computes, &sends});
  // 4 ms beside the transfer's 5: more in those draws in which memory is slower than 4/5 of itself.
  const double expected = 0.5 + 0.5 * std::log2(1.25);
  EXPECT_NEAR(drawn.PartFaster(0, 1), expected, 0.03);
  EXPECT_NEAR(drawn.PartFaster(1, 0), 1 - expected, 0.03);
  EXPECT_NEAR(drawn.PartInOrder({0.004, 0.005}), expected, 0.03);
  EXPECT_NEAR(drawn.PartInOrder({0.005, 0.004}), 1 - expected, 0.03);
}

TEST(DrawSteps, RefitEachDraw) {
  const program::RepresentativeProgram whole = MovesBytes(4'000'000), half = MovesBytes(2'000'000);
  engine::Machine machine = CertainMachine(1);
  machine.steps_in_flight = 1;
  machine.memory_bytes_per_sec.within = 2;
  const Refit refit = [&](engine::Machine& drawn) { return FitTo(drawn, {{"1", "lenet", 1, &whole, 0.010}}).status(); };
  const DrawnSteps drawn = Drawn(machine, {&whole, &half}, refit);
  EXPECT_NEAR(drawn.Of(0).low, 0.010, 1e-9);
  EXPECT_NEAR(drawn.Of(0).high, 0.010, 1e-9);
  // 10 ms less half of what the whole takes: 2 to the power of -0.9 to 0.9 times 2 ms.
  EXPECT_NEAR(drawn.Of(1).low, 0.010 - 0.002 * std::exp2(0.9), 1e-4);
  EXPECT_NEAR(drawn.Of(1).high, 0.010 - 0.002 * std::exp2(-0.9), 1e-4);
}

TEST(DrawSteps, LeaveOutWhatCannotBeRefitted) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = CertainMachine(1);
  machine.memory_bytes_per_sec.within = 2;
  const Refit faster_only = [](engine::Machine& drawn) {
    return drawn.memory_bytes_per_sec.value > 1e9 ? absl::OkStatus() : absl::FailedPreconditionError("too slow");
  };
  EXPECT_NEAR(Drawn(machine, {&program}, faster_only).draws(), kDraws / 2, kDraws / 20);
  const Refit none = [](engine::Machine&) { return absl::FailedPreconditionError("never"); };
  EXPECT_EQ(DrawSteps(machine, {&program}, none, {}).status().message(), "never");
}

TEST(DrawSteps, AreNoneOfACertainProfileAndAHundredOfOthers) {
  const program::RepresentativeProgram program = MovesBytes(4'000'000);
  engine::Machine machine = CertainMachine(1);
  EXPECT_EQ(Drawn(machine, {&program}).draws(), 0);
  machine.memory_bytes_per_sec.within = 2;
  int shown = 0;
  const absl::StatusOr<DrawnSteps> drawn = DrawSteps(machine, {&program}, nullptr, {.progress = [&](int done, int draws) {
                                                       EXPECT_EQ(done, ++shown);
                                                       EXPECT_EQ(draws, 100);
                                                     }});
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->draws(), 100);
  EXPECT_EQ(shown, 100);
  EXPECT_EQ(Drawn(machine, {&program}, nullptr, 1).Of(0).low, Drawn(machine, {&program}, nullptr, 1).Of(0).low);
  EXPECT_NE(Drawn(machine, {&program}, nullptr, 1).Of(0).low, Drawn(machine, {&program}, nullptr, 2).Of(0).low);
}

}  // namespace
}  // namespace colonnade::tools
