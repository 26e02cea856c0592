// The steps: what is launched becomes records, waits and calls on streams.
#include <cstring>

#include "cuda/loaded.h"
#include "cuda/status.h"

namespace colonnade::cuda {

using program::Lane;
using program::Task;
using program::TaskId;

void CudaProgram::Launch(TaskId task, int64_t step) {
  if (!any_launched_) first_step_ = step;
  any_launched_ = true;
  last_step_ = step;
  queues_.Launch(task, step);
}

void CudaProgram::Await(int device, Lane lane, TaskId task, int64_t step) {
  if (!any_launched_ || step < first_step_) return;
  queues_.Await(device, lane, task, step);
}

void CudaProgram::IssueTask(TaskId id, int64_t step) {
  if (!status_.ok()) return;
  const Task& task = program_.task(id);
  absl::Status status = Begin(task, step);
  status.Update(Run(task, 0, step));
  status.Update(End(task, step));
  Note(InTask(status, task));
}

void CudaProgram::IssueMeeting(absl::Span<const TaskId> sides, int64_t step) {
  if (!status_.ok()) return;
  Note(InTask(RunMeeting(sides, step), program_.task(sides[0])));
}

void CudaProgram::IssueWait(int device, Lane lane, TaskId task, int64_t step) {
  if (!status_.ok()) return;
  const Event event = events_[task.value].ended[step % 2];
  if (event == nullptr)
    return Note(InTask(absl::InternalError("waited for, though no task of the Program does"), program_.task(task)));
  Note(InTask(machine_.calls->Wait(machine_.devices[device].stream(lane), event), program_.task(task)));
}

absl::Status CudaProgram::Begin(const Task& task, int64_t step) {
  const Event event = events_[task.id.value].start[step % 2];
  return event == nullptr ? absl::OkStatus() : machine_.calls->Record(event, StreamOf(task));
}

absl::Status CudaProgram::Run(const Task& task, size_t phase, int64_t step) {
  const Ready& ready = tasks_[task.id.value];
  const bool odd = step % 2 == 1 && !ready.odd_calls.empty();
  machine_.calls->BeginRange(ready.range);
  absl::Status status;
  for (const Call& call : odd ? ready.odd_calls : ready.phases[phase]) {
    status = machine_.calls->Enqueue(StreamOf(task), call);
    if (!status.ok()) break;
  }
  machine_.calls->EndRange();
  return status;
}

absl::Status CudaProgram::End(const Task& task, int64_t step) {
  const Stream& stream = StreamOf(task);
  absl::Status status;
  const Events& events = events_[task.id.value];
  const Event lane = lane_ended_[task.device][step % 2][static_cast<int>(task.lane)];
  for (const Event event : {events.end[step % 2], events.ended[step % 2], events.last_of_lane ? lane : nullptr}) {
    if (event != nullptr) status.Update(machine_.calls->Record(event, stream));
  }
  return status;
}

absl::Status CudaProgram::MeetAll(absl::Span<const TaskId> sides, const std::vector<Event>& events) {
  absl::Status status;
  for (size_t m = 0; m < sides.size(); ++m) {
    status.Update(machine_.calls->Record(events[m], StreamOf(program_.task(sides[m]))));
  }
  for (size_t m = 0; m < sides.size(); ++m) {
    for (size_t j = 0; j < sides.size(); ++j) {
      if (j != m) status.Update(machine_.calls->Wait(StreamOf(program_.task(sides[m])), events[j]));
    }
  }
  return status;
}

absl::Status CudaProgram::RunMeeting(absl::Span<const TaskId> sides, int64_t step) {
  const Barriers& barriers = barriers_[sides[0].value];
  absl::Status status = MeetAll(sides, barriers[0]);
  for (TaskId side : sides) status.Update(Begin(program_.task(side), step));
  for (size_t phase = 0; phase + 1 < barriers.size() && status.ok(); ++phase) {
    for (TaskId side : sides) status.Update(Run(program_.task(side), phase, step));
    status.Update(MeetAll(sides, barriers[phase + 1]));
  }
  for (TaskId side : sides) status.Update(End(program_.task(side), step));
  return status;
}

void CudaProgram::Note(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

absl::Status CudaProgram::Synchronize(int64_t step) {
  if (!any_launched_ || step < first_step_) return status_;
  if (status_.ok() && queues_.held() > 0) {
    Note(absl::InternalError("a step was not launched whole: commands wait for tasks that were not launched"));
  }
  // An event that was never recorded is behind us.
  for (int64_t s = step; s >= first_step_ && s > step - 2; --s) {
    if (s > last_step_) continue;
    for (auto& of_device : lane_ended_) {
      for (Event event : of_device[s % 2]) {
        if (status_.ok()) Note(machine_.calls->Synchronize(event));
      }
    }
  }
  for (size_t o = 0; o < slots_[step % 2].outputs.size() && status_.ok() && step <= last_step_; ++o) {
    for (size_t p = 0; p < slots_[step % 2].outputs[o].size(); ++p) {
      std::memcpy(slots_[step % 2].outputs[o][p], host_[step % 2].outputs[o][p], OutputBytes(o, p));
    }
  }
  return status_;
}

std::vector<engine::TaskTime> CudaProgram::Times(int64_t step) const {
  std::vector<engine::TaskTime> times(tasks_.size());
  for (size_t i = 0; i < times.size() && origin_ != nullptr; ++i) {
    const Events& events = events_[i];
    const absl::StatusOr<double> start = machine_.calls->SecondsBetween(origin_, events.start[step % 2]);
    const absl::StatusOr<double> end = machine_.calls->SecondsBetween(origin_, events.end[step % 2]);
    if (start.ok() && end.ok()) times[i] = {absl::Seconds(*start), absl::Seconds(*end)};
  }
  return times;
}

}  // namespace colonnade::cuda
