// The events of a loaded Program's steps: what streams record, what other streams and the host wait for, and times.
//
// Events of even and of odd steps are different ones, so that a step may be waited for while the next one is enqueued.
#ifndef COLONNADE_CUDA_STEP_EVENTS_H_
#define COLONNADE_CUDA_STEP_EVENTS_H_

#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cuda/calls.h"
#include "cuda/device.h"
#include "program/program.h"

namespace colonnade::cuda {

using ByParity = std::array<Event, 2>;  // of even and of odd steps

// Makes events, and destroys them with itself.
class EventPool {
 public:
  explicit EventPool(Resources& resources) : resources_(resources) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Null where it cannot be made; status() then says why.
  Event Make(int device, bool timed = false);
  ByParity MakePair(int device, bool timed = false) { return {Make(device, timed), Make(device, timed)}; }
  const absl::Status& status() const { return status_; }

 private:
  Resources& resources_;
  std::vector<std::pair<int, Event>> events_;  // with the GPU
  absl::Status status_;
};

struct TaskEvents {
  ByParity ended = {nullptr, nullptr};                            // null: nobody waits for it
  ByParity start = {nullptr, nullptr}, end = {nullptr, nullptr};  // timed; null without times
  bool last_of_lane = false;
};

// What a meeting's members record when they are through with a phase, by phase and member; arrivals are phase 0.
using Barriers = std::vector<std::vector<Event>>;

// When a step began on a device's compute stream, by step modulo 3: events of different GPUs cannot be compared, and those
// long apart only coarsely.
struct StepOrigin {
  std::array<Event, 3> began = {nullptr, nullptr, nullptr};  // timed
  std::array<double, 3> seconds = {0, 0, 0};                 // since the first step
};

// What of a task decides on its events.
struct EventNeeds {
  size_t phases = 0;                          // of a meeting
  absl::Span<const program::TaskId> members;  // of a meeting, for its first task; empty elsewhere
};

struct StepEvents {
  std::vector<TaskEvents> tasks;                                                  // by task
  std::vector<Barriers> barriers;                                                 // by task: of a meeting's first one
  std::vector<std::array<std::array<Event, program::kLaneCount>, 2>> lane_ended;  // by device, then step parity
  std::vector<Event> now;                                                         // by device: for the host's own copies
  std::vector<StepOrigin> origins;                                                // by device; none without times
};

// `needs`: by task. Where an event cannot be made, `pool` says so.
StepEvents MakeStepEvents(const program::Program& program, const std::vector<EventNeeds>& needs, bool timed,
                          EventPool& pool);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_STEP_EVENTS_H_
