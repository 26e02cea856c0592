// When tasks ran: one type for a measured run and for a simulated one, its view in Perfetto, and where the time went.
#ifndef COLONNADE_ENGINE_TRACE_H_
#define COLONNADE_ENGINE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/backend.h"
#include "program/program.h"

namespace colonnade::engine {

struct TraceEvent {
  int step = 0;      // of those in the trace
  std::string name;  // "conv_forward"
  std::string layer;
  program::Pass pass = program::Pass::kForward;
  int device = 0;
  program::Lane lane = program::Lane::kCompute;
  absl::Duration start, end;
  int64_t flops = 0, bytes_sent = 0;
  int64_t meeting = -1;  // events of one meeting of one step share a number
};

struct Trace {
  std::vector<TraceEvent> events;
};

// Returns the steps of `program`, one after the other, with the times of its tasks, by step and task index. The earliest
// start becomes 0. Without events where no task was timed, as on GPUs unless that is asked for.
Trace MakeTrace(const program::Program& program, absl::Span<const std::vector<TaskTime>> steps);

// Chrome's trace format, which Perfetto opens: a process for each device, a thread for each lane, flows between the sides of
// a transfer.
std::string ToChromeJson(const Trace& trace);

// Where the time of a step of one device went, from the end of the trace's first step to that of its last (of one step: in
// all of it): computing, communicating while nothing was computed, copying input or results while neither, and nothing.
struct Breakdown {
  absl::Duration compute, exposed_communication, input_wait, idle;
};
// Returns the breakdown of each device; empty where the trace is, since no task was timed.
std::vector<Breakdown> BreakDown(const Trace& trace, int device_count);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_TRACE_H_
