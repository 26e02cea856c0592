// When tasks ran: one type for a measured run and for a simulated one, its view in Perfetto, and where the time went.
#ifndef COLONNADE_ENGINE_TRACE_H_
#define COLONNADE_ENGINE_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/backend.h"
#include "program/program.h"

namespace colonnade::engine {

struct TraceEvent {
  std::string name;   // "conv_forward"
  std::string layer;
  program::Pass pass = program::Pass::kForward;
  int device = 0;
  program::Lane lane = program::Lane::kCompute;
  absl::Duration start, end;
  int64_t flops = 0, bytes_sent = 0;
  int64_t rendezvous = -1;  // events of one exchange or collective share a number
};

struct Trace {
  std::vector<TraceEvent> events;
};

// One step of `program` with the times of its tasks, by task index. The earliest start becomes 0.
Trace MakeTrace(const program::Program& program, const std::vector<TaskTime>& times);

// Chrome's trace format, which Perfetto opens: a process for each device, a thread for each lane, flows between the sides of a
// transfer.
std::string ToChromeJson(const Trace& trace);

// Where the time of one device went, from the first event of the trace to the last: computing, communicating while nothing was
// computed, copying input or results while neither, and nothing.
struct Breakdown {
  absl::Duration compute, exposed_communication, input_wait, idle;
};
std::vector<Breakdown> BreakDown(const Trace& trace, int device_count);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_TRACE_H_
