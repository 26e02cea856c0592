#include "engine/trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "program/meetings.h"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;
using Interval = std::pair<absl::Duration, absl::Duration>;

bool Communicates(const TraceEvent& event) { return event.meeting >= 0; }

// Intervals, sorted and joined where they touch.
std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> joined;
  for (const Interval& i : intervals) {
    if (joined.empty() || i.first > joined.back().second) {
      joined.push_back(i);
    } else {
      joined.back().second = std::max(joined.back().second, i.second);
    }
  }
  return joined;
}

absl::Duration Length(const std::vector<Interval>& intervals) {
  absl::Duration length;
  for (const Interval& i : intervals) length += i.second - i.first;
  return length;
}

absl::Duration LengthOfUnion(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Length(Union(std::move(a)));
}

// The part of a trace that holds whole steps: from the end of its first step to the end of its last. The first step's own
// time is left out, because its loads ran during the step before it, which the trace lacks. A trace of one step is taken as
// it is.
struct WholeSteps {
  absl::Duration begin, end;
  int steps;
};

WholeSteps WholeStepsOf(const Trace& trace) {
  absl::Duration first = absl::InfiniteDuration(), first_step_ends = -absl::InfiniteDuration(),
                 end = -absl::InfiniteDuration();
  int last_step = 0;
  for (const TraceEvent& event : trace.events) {
    first = std::min(first, event.start);
    end = std::max(end, event.end);
    if (event.step == 0) first_step_ends = std::max(first_step_ends, event.end);
    last_step = std::max(last_step, event.step);
  }
  return last_step == 0 ? WholeSteps{first, end, 1} : WholeSteps{first_step_ends, end, last_step};
}

// The sides of a transfer.
using Sides = std::vector<const TraceEvent*>;

// Adds the names of an event's device, Chrome's process, and lane, its thread.
void AddNames(const TraceEvent& event, Json& events) {
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", event.device},
                    {"args", {{"name", absl::StrCat("device ", event.device)}}}});
  events.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", event.device},
                    {"tid", static_cast<int>(event.lane)},
                    {"args", {{"name", program::Name(event.lane)}}}});
}

Json BarOf(const TraceEvent& event) {
  return {
      {"name", absl::StrCat(event.layer, " ", event.name)},
      {"cat", program::Name(event.pass)},
      {"ph", "X"},
      {"ts", absl::ToDoubleMicroseconds(event.start)},
      {"dur", absl::ToDoubleMicroseconds(event.end - event.start)},
      {"pid", event.device},
      {"tid", static_cast<int>(event.lane)},
      {"args", {{"step", event.step}, {"layer", event.layer}, {"flops", event.flops}, {"bytes_sent", event.bytes_sent}}}};
}

// `phase`: "s" where an arrow starts, "f" where it finishes.
Json ArrowEnd(const std::string& id, const char* phase, absl::Duration at, const TraceEvent& side) {
  return {{"name", "transfer"}, {"cat", "transfer"},
          {"ph", phase},        {"id", id},
          {"bp", "e"},          {"ts", absl::ToDoubleMicroseconds(at)},
          {"pid", side.device}, {"tid", static_cast<int>(side.lane)}};
}

// Adds an arrow from each side of a transfer to the next, the sender first. It ends when both sides are there: time runs
// forward.
void AddArrows(int64_t number, Sides sides, Json& events) {
  std::stable_partition(sides.begin(), sides.end(), [](const TraceEvent* side) { return side->bytes_sent > 0; });
  for (size_t i = 0; i + 1 < sides.size(); ++i) {
    const TraceEvent &from = *sides[i], &to = *sides[i + 1];
    const std::string id = absl::StrCat(number, ".", i);
    events.push_back(ArrowEnd(id, "s", from.start, from));
    events.push_back(ArrowEnd(id, "f", std::max(from.start, to.start), to));
  }
}

}  // namespace

Trace MakeTrace(const program::Program& program, absl::Span<const std::vector<TaskTime>> steps) {
  const program::Meetings meetings(program);
  Trace trace;
  absl::Duration first = absl::InfiniteDuration(), last = -absl::InfiniteDuration();
  for (const std::vector<TaskTime>& times : steps) {
    for (const TaskTime& time : times) {
      first = std::min(first, time.start);
      last = std::max(last, time.end);
    }
  }
  if (last <= first) return trace;
  for (size_t step = 0; step < steps.size(); ++step) {
    const int64_t before = static_cast<int64_t>(step * meetings.all().size());
    for (const program::Task& task : program.tasks) {
      const TaskTime& time = steps[step][task.id.value];
      const int meeting = meetings.IndexOf(task.id);
      trace.events.push_back({.step = static_cast<int>(step),
                              .name = program::Name(task),
                              .layer = task.provenance.layer,
                              .pass = task.provenance.pass,
                              .device = task.device,
                              .lane = task.lane,
                              .start = time.start - first,
                              .end = time.end - first,
                              .flops = task.work.flops,
                              .bytes_sent = task.work.bytes_sent,
                              .meeting = meeting < 0 ? -1 : before + meeting});
    }
  }
  return trace;
}

std::string ToChromeJson(const Trace& trace) {
  Json events = Json::array();
  std::set<std::pair<int, program::Lane>> named;
  std::map<int64_t, Sides> meetings;
  for (const TraceEvent& event : trace.events) {
    if (named.insert({event.device, event.lane}).second) AddNames(event, events);
    events.push_back(BarOf(event));
    if (Communicates(event)) meetings[event.meeting].push_back(&event);
  }
  for (auto& [number, sides] : meetings) AddArrows(number, std::move(sides), events);
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace);
}

std::vector<Breakdown> BreakDown(const Trace& trace, int device_count) {
  if (trace.events.empty()) return {};
  const WholeSteps whole = WholeStepsOf(trace);
  std::vector<std::vector<Interval>> compute(device_count), transfer(device_count), input(device_count);
  for (const TraceEvent& event : trace.events) {
    const Interval interval{std::max(event.start, whole.begin), event.end};
    if (interval.first >= interval.second) continue;
    if (Communicates(event)) {
      transfer[event.device].push_back(interval);
    } else {
      const bool host = event.pass == program::Pass::kInput || event.pass == program::Pass::kOutput;
      (host ? input : compute)[event.device].push_back(interval);
    }
  }
  std::vector<Breakdown> breakdowns;
  for (int d = 0; d < device_count; ++d) {
    // A transfer in line with compute holds the compute lane but computes nothing.
    const std::vector<Interval> c = Union(compute[d]), t = Union(transfer[d]);
    std::vector<Interval> busy = c;
    busy.insert(busy.end(), t.begin(), t.end());
    Breakdown b;
    b.compute = Length(c);
    b.exposed_communication = LengthOfUnion(c, t) - b.compute;
    b.input_wait = LengthOfUnion(busy, input[d]) - b.compute - b.exposed_communication;
    b.idle = whole.end - whole.begin - b.compute - b.exposed_communication - b.input_wait;
    for (absl::Duration* part : {&b.compute, &b.exposed_communication, &b.input_wait, &b.idle}) *part /= whole.steps;
    breakdowns.push_back(b);
  }
  return breakdowns;
}

}  // namespace colonnade::engine
