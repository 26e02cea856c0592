#include "cuda/load/step_events.h"

namespace colonnade::cuda {

using program::Program;
using program::Task;
using program::TaskId;

EventPool::~EventPool() {
  for (const auto& [gpu, event] : events_) resources_.calls->Destroy(gpu, event);
}

Event EventPool::Make(int device, bool timed) {
  const int gpu = resources_.devices[device].gpu;
  const absl::StatusOr<Event> event = resources_.calls->MakeEvent(gpu, timed);
  status_.Update(event.status());
  if (!event.ok()) return nullptr;
  events_.emplace_back(gpu, *event);
  return *event;
}

namespace {

std::vector<bool> AwaitedTasks(const Program& program) {
  std::vector<bool> is_awaited(program.tasks.size(), false);
  for (const Task& task : program.tasks) {
    for (TaskId wait : task.waits) is_awaited[wait.value] = true;
    for (TaskId wait : task.waits_previous) is_awaited[wait.value] = true;
  }
  return is_awaited;
}

TaskEvents MakeTaskEvents(const Task& task, bool is_awaited, bool timed, EventPool& pool) {
  TaskEvents events;
  if (is_awaited) events.ended = pool.MakePair(task.device);
  if (timed) {
    events.start = pool.MakePair(task.device, true);
    events.end = pool.MakePair(task.device, true);
  }
  return events;
}

Barriers MakeBarriers(const Program& program, const EventNeeds& needs, EventPool& pool) {
  Barriers barriers(needs.phases + 1);
  for (std::vector<Event>& barrier : barriers) {
    for (TaskId member : needs.members) barrier.push_back(pool.Make(program.task(member).device));
  }
  return barriers;
}

}  // namespace

StepEvents MakeStepEvents(const Program& program, const std::vector<EventNeeds>& needs, bool timed, EventPool& pool) {
  StepEvents events;
  events.barriers.resize(program.tasks.size());
  const std::vector<bool> is_awaited = AwaitedTasks(program);
  for (const Task& task : program.tasks) {
    const EventNeeds& of_task = needs[task.id.value];
    events.tasks.push_back(MakeTaskEvents(task, is_awaited[task.id.value], timed, pool));
    if (!of_task.members.empty()) events.barriers[task.id.value] = MakeBarriers(program, of_task, pool);
  }
  for (int d = 0; d < program.device_count; ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      const std::vector<TaskId> order = program::LaneOrder(program, d, static_cast<program::Lane>(l));
      if (!order.empty()) events.tasks[order.back().value].last_of_lane = true;
    }
    events.now.push_back(pool.Make(d));
    auto& lane_ended = events.lane_ended.emplace_back();
    for (auto& of_parity : lane_ended) {
      for (Event& event : of_parity) event = pool.Make(d);
    }
    if (!timed) continue;
    StepOrigin& origin = events.origins.emplace_back();
    for (Event& event : origin.began) event = pool.Make(d, true);
  }
  return events;
}

}  // namespace colonnade::cuda
