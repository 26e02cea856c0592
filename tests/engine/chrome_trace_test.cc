// Traces made of Programs, and what a viewer gets of them.

#include <map>
#include <string>
#include <vector>

#include "engine/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program/builder.h"

namespace colonnade::engine {
namespace {

using nlohmann::json;
using program::BufferId;
using program::DType;
using program::Lane;
using program::Pass;
using program::Program;

// Device 0 computes and sends 16 bytes to device 1; then both sum over their group.
Program SendAndSum() {
  program::Builder b("p", program::Mode::kTrain, 1, DType::kF32, {{"data", 2}});
  std::vector<BufferId> x;
  for (int d = 0; d < 2; ++d) x.push_back(b.AddBuffer(d, "x", DType::kF32, {4}));
  b.AddCompute(0, Lane::kCompute, program::ActivationForward{program::Activation::kRelu}, {b.Write(x[0])}, 4,
               {"relu1", Pass::kForward});
  b.AddExchange(0, {{b.Read(x[0])}, {.bytes_sent = 16}}, 1, {{b.Write(x[1])}, {}}, Lane::kComm, {"conv2", Pass::kForward});
  b.AddCollective(b.AddGroup({0, 1}), {.kind = program::CollectiveKind::kAllReduce},
                  {{{b.Accumulate(x[0])}, {.bytes_sent = 16}}, {{b.Accumulate(x[1])}, {.bytes_sent = 16}}}, Lane::kComm,
                  {"bucket0", Pass::kBackward});
  return std::move(b).Build();
}

TaskTime Time(int start_us, int end_us) { return {absl::Microseconds(start_us), absl::Microseconds(end_us)}; }

const std::vector<TaskTime> kTimes = {Time(100, 110), Time(110, 130), Time(105, 130), Time(130, 140), Time(131, 140)};

TEST(MakeTrace, TakesNamesAndWorkFromTheProgramAndTimesFromTheFirstStart) {
  const Program program = SendAndSum();
  ASSERT_EQ(program.tasks.size(), 5u);
  const Trace trace = MakeTrace(program, {kTimes});
  ASSERT_EQ(trace.events.size(), 5u);
  EXPECT_EQ(trace.events[0].name, "relu_forward");
  EXPECT_EQ(trace.events[0].layer, "relu1");
  EXPECT_EQ(trace.events[0].flops, 4);
  EXPECT_EQ(trace.events[0].start, absl::ZeroDuration());
  EXPECT_EQ(trace.events[0].meeting, -1);
  EXPECT_EQ(trace.events[1].name, "exchange");
  EXPECT_EQ(trace.events[1].bytes_sent, 16);
  EXPECT_EQ(trace.events[1].end, absl::Microseconds(30));
  EXPECT_EQ(trace.events[1].meeting, trace.events[2].meeting);
  EXPECT_EQ(trace.events[3].name, "all_reduce");
  EXPECT_EQ(trace.events[3].meeting, trace.events[4].meeting);
  EXPECT_NE(trace.events[1].meeting, trace.events[3].meeting);
}

TEST(MakeTrace, IsEmptyWhereNoTaskWasTimed) {
  const std::vector<TaskTime> none(kTimes.size());
  EXPECT_THAT(MakeTrace(SendAndSum(), {none, none}).events, testing::IsEmpty());
  EXPECT_THAT(BreakDown(Trace(), 2), testing::IsEmpty());
}

TEST(MakeTrace, StepsHaveTheirOwnEventsAndTransfersInOneTimeline) {
  std::vector<TaskTime> later = kTimes;
  for (TaskTime& time : later) time = {time.start + absl::Microseconds(45), time.end + absl::Microseconds(45)};
  const Trace trace = MakeTrace(SendAndSum(), {kTimes, later});
  ASSERT_EQ(trace.events.size(), 10u);
  EXPECT_EQ(trace.events[4].step, 0);
  EXPECT_EQ(trace.events[5].step, 1);
  EXPECT_EQ(trace.events[5].start, absl::Microseconds(45));
  EXPECT_NE(trace.events[6].meeting, trace.events[1].meeting);
  EXPECT_EQ(trace.events[6].meeting, trace.events[7].meeting);
  // Device 0 computes for 10 us in the second step, which ends 45 us after the first.
  const Breakdown breakdown = BreakDown(trace, 2)[0];
  EXPECT_EQ(breakdown.compute, absl::Microseconds(10));
  EXPECT_EQ(breakdown.compute + breakdown.exposed_communication + breakdown.idle, absl::Microseconds(45));
}

// The arrow of an exchange goes from the sender to the receiver and forward in time, also where the receiver was there
// first.
TEST(ToChromeJson, ArrowsGoForwardFromTheSenderAndLieInTheirEvents) {
  for (const auto& [sender_us, receiver_us] : {std::pair{110, 105}, {105, 110}}) {
    const Trace trace =
        MakeTrace(SendAndSum(), {std::vector<TaskTime>{Time(100, 104), Time(sender_us, 130), Time(receiver_us, 130),
                                                       Time(130, 140), Time(131, 140)}});
    const json events = json::parse(ToChromeJson(trace))["traceEvents"];
    std::map<std::string, std::pair<json, json>> arrows;
    for (const json& event : events) {
      if (event["ph"] == "s") arrows[event["id"]].first = event;
      if (event["ph"] == "f") arrows[event["id"]].second = event;
    }
    EXPECT_EQ(arrows.size(), 2u);
    for (const auto& [id, arrow] : arrows) {
      const auto& [from, to] = arrow;
      ASSERT_TRUE(from.is_object() && to.is_object()) << id;
      EXPECT_EQ(from["pid"], 0);
      EXPECT_EQ(to["pid"], 1);
      EXPECT_LE(from["ts"], to["ts"]);
      for (const json& end : {from, to}) {
        bool inside = false;
        for (const json& event : events) {
          inside =
              inside || (event["ph"] == "X" && event["pid"] == end["pid"] && event["tid"] == end["tid"] &&
                         event["ts"] <= end["ts"] && end["ts"] < event["ts"].get<double>() + event["dur"].get<double>());
        }
        EXPECT_TRUE(inside) << end.dump();
      }
    }
  }
}

TEST(ToChromeJson, EventsCarryTimeInMicrosecondsDeviceLaneAndWork) {
  const json events = json::parse(ToChromeJson(MakeTrace(SendAndSum(), {kTimes})))["traceEvents"];
  int found = 0;
  for (const json& event : events) {
    if (event["ph"] != "X" || event["name"] != "conv2 exchange" || event["pid"] != 0) continue;
    ++found;
    EXPECT_EQ(event["ts"], 10);
    EXPECT_EQ(event["dur"], 20);
    EXPECT_EQ(event["tid"], static_cast<int>(Lane::kComm));
    EXPECT_EQ(event["cat"], "forward");
    EXPECT_EQ(event["args"]["layer"], "conv2");
    EXPECT_EQ(event["args"]["bytes_sent"], 16);
  }
  EXPECT_EQ(found, 1);
}

TEST(ToChromeJson, ALayersNameThatIsNotUtf8OrHasQuotesStaysJson) {
  const Trace trace{{{.name = "op", .layer = "a\"\\\n"}, {.name = "op", .layer = "\xff"}}};
  const json parsed = json::parse(ToChromeJson(trace), nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(parsed.is_discarded());
  EXPECT_EQ(parsed["traceEvents"][2]["name"], "a\"\\\n op");
}

TEST(ToChromeJson, ATraceOfNothingIsAnEmptyList) { EXPECT_TRUE(json::parse(ToChromeJson({}))["traceEvents"].empty()); }

}  // namespace
}  // namespace colonnade::engine
