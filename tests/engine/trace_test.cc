#include "engine/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {
namespace {

using program::Lane;

TraceEvent Event(int device, Lane lane, int start_ms, int end_ms, int64_t meeting = -1) {
  return {.name = "op",
          .layer = "layer",
          .device = device,
          .lane = lane,
          .start = absl::Milliseconds(start_ms),
          .end = absl::Milliseconds(end_ms),
          .meeting = meeting};
}

TEST(BreakDown, TimeIsComputeThenExposedCommunicationThenInputThenIdle) {
  TraceEvent load = Event(0, Lane::kCopy, 0, 12);
  load.pass = program::Pass::kInput;
  const Trace trace{{load, Event(0, Lane::kCompute, 10, 30), Event(0, Lane::kComm, 25, 45, 1),
                     Event(0, Lane::kCompute, 50, 60), Event(1, Lane::kComm, 25, 45, 1)}};
  const std::vector<Breakdown> b = BreakDown(trace, 2);
  EXPECT_EQ(b[0].compute, absl::Milliseconds(30));
  EXPECT_EQ(b[0].exposed_communication, absl::Milliseconds(15));
  EXPECT_EQ(b[0].input_wait, absl::Milliseconds(10));
  EXPECT_EQ(b[0].idle, absl::Milliseconds(5));
  EXPECT_EQ(b[1].compute, absl::ZeroDuration());
  EXPECT_EQ(b[1].exposed_communication, absl::Milliseconds(20));
  EXPECT_EQ(b[1].idle, absl::Milliseconds(40));
}

TEST(BreakDown, WhatIsStoredOnTheHostIsNoComputation) {
  TraceEvent store = Event(0, Lane::kCopy, 10, 15);
  store.pass = program::Pass::kOutput;
  const Breakdown b = BreakDown(Trace{{Event(0, Lane::kCompute, 0, 10), store}}, 1)[0];
  EXPECT_EQ(b.compute, absl::Milliseconds(10));
  EXPECT_EQ(b.input_wait, absl::Milliseconds(5));
}

TEST(BreakDown, ATransferInLineWithComputeIsCommunication) {
  const Trace trace{{Event(0, Lane::kCompute, 0, 10), Event(0, Lane::kCompute, 10, 30, 4)}};
  EXPECT_EQ(BreakDown(trace, 1)[0].compute, absl::Milliseconds(10));
  EXPECT_EQ(BreakDown(trace, 1)[0].exposed_communication, absl::Milliseconds(20));
}

TraceEvent InStep(int step, program::Pass pass, TraceEvent event) {
  event.step = step;
  event.pass = pass;
  return event;
}

// The first step is loaded while the one before it computes, of which the trace knows nothing.
TEST(BreakDown, BeginsWhereTheFirstOfSeveralStepsEnds) {
  using program::Pass;
  const Trace trace{{InStep(0, Pass::kInput, Event(0, Lane::kLoad, 0, 2)),
                     InStep(0, Pass::kForward, Event(0, Lane::kCompute, 100, 120)),
                     InStep(1, Pass::kInput, Event(0, Lane::kLoad, 115, 124)),
                     InStep(1, Pass::kForward, Event(0, Lane::kCompute, 124, 140))}};
  const Breakdown b = BreakDown(trace, 1)[0];
  EXPECT_EQ(b.compute, absl::Milliseconds(16));
  EXPECT_EQ(b.input_wait, absl::Milliseconds(4));
  EXPECT_EQ(b.idle, absl::ZeroDuration());
}

TEST(ToChromeJson, HasAProcessPerDeviceAThreadPerLaneAndFlowsBetweenSides) {
  const Trace trace{{Event(0, Lane::kComm, 1, 3, 2), Event(1, Lane::kComm, 1, 3, 2), Event(1, Lane::kCompute, 3, 4)}};
  const nlohmann::json json = nlohmann::json::parse(ToChromeJson(trace));
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  int complete = 0, names = 0, starts = 0, ends = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X") {
      ++complete;
      EXPECT_TRUE(event["ts"].is_number());
      EXPECT_TRUE(event["dur"].is_number());
    }
    names += event["ph"] == "M";
    starts += event["ph"] == "s";
    ends += event["ph"] == "f";
  }
  EXPECT_EQ(complete, 3);
  EXPECT_EQ(names, 6);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace colonnade::engine
