// The clock of the simulator's jobs, by hand: each on its own, and where all share cores.

#include "engine/simulator/job_clock.h"

#include <limits>

#include "gtest/gtest.h"

namespace colonnade::engine {
namespace {

TEST(JobClock, PartsEndAfterTheirSecondsInTheOrderOfTheirEnds) {
  JobClock clock(/*cores=*/0, /*jobs=*/3);
  EXPECT_EQ(clock.NextEnd(0), std::numeric_limits<double>::infinity());
  clock.Start(0, 0, 3);
  clock.Start(0, 1, 1);
  clock.Start(0.5, 2, 2.5);
  EXPECT_EQ(clock.NextEnd(0.5), 1);
  EXPECT_EQ(clock.EndNext(), 1);
  EXPECT_EQ(clock.NextEnd(1), 3);
  EXPECT_EQ(clock.SecondsLeft(1, 2), 2);
  EXPECT_EQ(clock.EndNext(), 0) << "of two that end at one time it began first";
  EXPECT_EQ(clock.NextEnd(3), 3);
  EXPECT_EQ(clock.EndNext(), 2);
  EXPECT_EQ(clock.NextEnd(3), std::numeric_limits<double>::infinity());
}

TEST(JobClock, JobsWithCoresOfTheirOwnDoNotSlowDown) {
  JobClock clock(/*cores=*/0, /*jobs=*/1);
  clock.Demand(0, 100);
  clock.Start(0, 0, 1);
  EXPECT_EQ(clock.NextEnd(0), 1);
}

TEST(JobClock, WhatIsStretchedEndsLaterByWhatWasLeftOfIt) {
  JobClock clock(/*cores=*/0, /*jobs=*/2);
  clock.Start(0, 0, 4);
  clock.Start(0, 1, 4);
  clock.Stretch(1, 0, 1.5);  // of 3
  EXPECT_EQ(clock.NextEnd(1), 4);
  EXPECT_EQ(clock.EndNext(), 1) << "the end that job 0 had before holds no more";
  EXPECT_EQ(clock.NextEnd(4), 5.5);
  EXPECT_EQ(clock.EndNext(), 0);
}

TEST(JobClock, SharedCoresSlowAllDownThatRuns) {
  JobClock clock(/*cores=*/2, /*jobs=*/2);
  clock.Start(0, 0, 1);
  clock.Demand(0, 2);
  EXPECT_EQ(clock.NextEnd(0), 1) << "as many cores as there are";
  clock.Demand(0, 2);
  EXPECT_EQ(clock.NextEnd(0), 2) << "half as many";
  clock.Demand(1, -2);
  EXPECT_EQ(clock.NextEnd(1), 1.5) << "half of it was done";
  EXPECT_EQ(clock.SecondsLeft(1.25, 0), 0.25);
  clock.Demand(1.25, 6);
  clock.Start(1.25, 1, 0.125);
  EXPECT_EQ(clock.NextEnd(1.25), 1.75) << "a quarter of the speed";
  EXPECT_EQ(clock.EndNext(), 1);
}

}  // namespace
}  // namespace colonnade::engine
