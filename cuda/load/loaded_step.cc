// The steps: what is launched becomes records, waits and calls on streams.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/load/loaded.h"
#include "cuda/status.h"

namespace colonnade::cuda {

using program::Lane;
using program::Task;
using program::TaskId;

namespace {

constexpr int kImageSlots = 2;  // each must have been loaded before its images are kept

bool HasRankCalls(const std::vector<Call>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call& call) { return std::holds_alternative<RankCall>(call); });
}

}  // namespace

void CudaProgram::StartStep(int64_t step) {
  if (any_launched_ && (step == last_step_ || launched_in_step_ < tasks_.size())) return;
  if (!any_launched_) first_step_ = step;
  // Steps that do not follow each other are none of a training's.
  if (any_launched_ && step != last_step_ + 1) graphs_on_ = false;
  ++steps_in_turn_;
  after_graph_ = any_launched_ && mode_ != StepMode::kEager;
  any_launched_ = true;
  last_step_ = step;
  launched_in_step_ = 0;
  const bool may_be_graph = graphs_on_ && status_.ok() && step != step_in_parts_;
  FailUnlessOk(FreeSlots(static_cast<int>(step % 2)));
  mode_ = ModeOfStep(may_be_graph, step - first_step_, graphs_.has_graph(static_cast<int>(step % 2)));
  is_graph_[step % 2] = mode_ != StepMode::kEager;
  FailUnlessOk(BeginStep(step));
  if (mode_ == StepMode::kEager) return;
  for (const Task& task : program_.tasks) {
    if (task.lane == Lane::kLoad) IssueTask(task.id, step);  // no part of a graph, nor of what is captured
  }
  if (mode_ != StepMode::kCapture) return;
  if (!status_.ok()) {  // nothing more is enqueued
    mode_ = StepMode::kEager;
    is_graph_[step % 2] = false;
    return;
  }
  capture_status_ = graphs_.BeginCapture();
  if (!capture_status_.ok()) GiveUpCapture();
}

// What cannot be captured runs as before, unless it must be.
void CudaProgram::GiveUpCapture() {
  graphs_.EndCapture(static_cast<int>(last_step_ % 2), capture_status_).IgnoreError();
  graphs_on_ = false;
  is_graph_[last_step_ % 2] = false;
  mode_ = StepMode::kEager;
  const std::string why =
      absl::StrCat("step ", last_step_, " could not be captured as a CUDA graph: ", capture_status_.message());
  if (resources_.graphs == Graphs::kOn) {
    captured_.clear();
    const bool is_broken = absl::IsInternal(capture_status_) || absl::IsResourceExhausted(capture_status_);
    return FailUnlessOk(absl::Status(is_broken ? capture_status_.code() : absl::StatusCode::kFailedPrecondition, why));
  }
  notes_.push_back(absl::StrCat(why, "; steps run task by task"));
  queues_.Rewind(last_step_);
  for (const Task& task : program_.tasks) {
    const bool was_launched = launched_in_step_ > 0;                                    // else they are still to come
    if (task.lane == Lane::kLoad && was_launched) queues_.Launch(task.id, last_step_);  // once more, as the waits expect
  }
  for (const HostCommand& launched : std::exchange(captured_, {})) Issue(launched);
}

void CudaProgram::EndStep() {
  if (mode_ == StepMode::kEager || !status_.ok()) return;
  if (mode_ == StepMode::kCapture) {
    capture_status_ = graphs_.EndCapture(static_cast<int>(last_step_ % 2), capture_status_);
    if (!capture_status_.ok()) return GiveUpCapture();
  }
  captured_.clear();
  FailUnlessOk(LaunchGraph());
}

// Loads are no part of a graph, which begins when they have ended.
absl::Status CudaProgram::LaunchGraph() {
  const int parity = static_cast<int>(last_step_ % 2);
  absl::Status status;
  for (auto& of_device : events_.lane_ended) {
    status.Update(resources_.calls->Wait(graphs_.stream(), of_device[parity][static_cast<int>(Lane::kLoad)]));
  }
  status.Update(graphs_.Launch(parity));
  return status;
}

void CudaProgram::Fence() {
  if (!memory_.TakeTurn()) return;
  steps_in_turn_ = 0;  // another Program has had the memory
  for (int d = 0; d < program_.device_count && status_.ok(); ++d) {
    FailUnlessOk(cuda::Fence(*resources_.calls, resources_.devices[d]));
  }
}

void CudaProgram::Launch(TaskId task, int64_t step) {
  StartStep(step);
  for (const HostCommand& wait : early_waits_) IssueAwait(wait);
  early_waits_.clear();
  const Task& what = program_.task(task);
  const bool is_issued = mode_ == StepMode::kLaunch || (mode_ == StepMode::kCapture && what.lane == Lane::kLoad);
  if (!is_issued) Issue({task, what.device, what.lane, step, /*is_wait=*/false});
  if (++launched_in_step_ == tasks_.size()) EndStep();
}

void CudaProgram::Await(int device, Lane lane, TaskId task, int64_t step) {
  if (!any_launched_ || step < first_step_) return;
  const HostCommand wait{task, device, lane, step, /*is_wait=*/true};
  if (launched_in_step_ == tasks_.size()) return early_waits_.push_back(wait);
  IssueAwait(wait);
}

void CudaProgram::IssueAwait(const HostCommand& wait) {
  // A graph ends before anything that is enqueued later, and begins after all that was enqueued before.
  const bool is_past = wait.step < last_step_;
  if (mode_ == StepMode::kLaunch || (is_past && after_graph_)) return;
  if (is_past && mode_ == StepMode::kCapture) {
    captured_.push_back(wait);
  } else {
    Issue(wait);
  }
}

void CudaProgram::Issue(const HostCommand& launched) {
  if (mode_ == StepMode::kCapture) captured_.push_back(launched);
  if (launched.is_wait && mode_ == StepMode::kCapture && program_.task(launched.task).lane == Lane::kLoad) return;
  if (launched.is_wait) {
    queues_.Await(launched.device, launched.lane, launched.task, launched.step);
  } else {
    queues_.Launch(launched.task, launched.step);
  }
}

void CudaProgram::IssueTask(TaskId id, int64_t step) {
  if (!status_.ok()) return;
  const Task& task = program_.task(id);
  absl::Status status;
  status.Update(Begin(task, step));
  status.Update(Run(task, 0, step));
  status.Update(End(task, step));
  FailUnlessOk(InTask(status, task));
}

void CudaProgram::IssueMeeting(absl::Span<const TaskId> sides, int64_t step) {
  if (!status_.ok()) return;
  FailUnlessOk(InTask(RunMeeting(sides, step), program_.task(sides[0])));
}

void CudaProgram::IssueWait(int device, Lane lane, TaskId task, int64_t step) {
  if (!status_.ok()) return;
  const Event event = events_.tasks[task.value].ended[step % 2];
  if (event == nullptr)
    return FailUnlessOk(
        InTask(absl::InternalError("a wait names this task, but no task of the Program waits for it"), program_.task(task)));
  FailUnlessOk(InTask(resources_.calls->Wait(resources_.devices[device].stream(lane), event), program_.task(task)));
}

absl::Status CudaProgram::KeepImages() {
  if (!any_launched_ || last_step_ == first_step_) {
    return absl::FailedPreconditionError("there are no images to keep before two steps have been launched");
  }
  keeps_images_ = true;
  return absl::OkStatus();
}

absl::Status CudaProgram::Begin(const Task& task, int64_t step) {
  const Event event = events_.tasks[task.id.value].start[step % 2];
  return event == nullptr ? absl::OkStatus() : resources_.calls->Record(event, StreamOf(task));
}

absl::Status CudaProgram::Run(const Task& task, size_t phase, int64_t step) {
  const LoadedTask& ready = tasks_[task.id.value];
  if (keeps_images_ && steps_in_turn_ > kImageSlots && ready.is_kept) return absl::OkStatus();
  const bool odd = step % 2 == 1 && !ready.odd_calls.empty();
  resources_.calls->BeginRange(ready.range);
  absl::Status status;
  for (const Call& call : odd ? ready.odd_calls : ready.phases[phase]) {
    status = resources_.calls->Enqueue(StreamOf(task), call);
    if (!status.ok()) break;
  }
  resources_.calls->EndRange();
  return status;
}

absl::Status CudaProgram::End(const Task& task, int64_t step) {
  const Stream& stream = StreamOf(task);
  absl::Status status;
  const TaskEvents& events = events_.tasks[task.id.value];
  const Event lane = events_.lane_ended[task.device][step % 2][static_cast<int>(task.lane)];
  for (const Event event : {events.end[step % 2], events.ended[step % 2], events.last_of_lane ? lane : nullptr}) {
    if (event != nullptr) status.Update(resources_.calls->Record(event, stream));
  }
  return status;
}

absl::Status CudaProgram::MeetAll(absl::Span<const TaskId> sides, const std::vector<Event>& events) {
  absl::Status status;
  for (size_t m = 0; m < sides.size(); ++m) {
    status.Update(resources_.calls->Record(events[m], StreamOf(program_.task(sides[m]))));
  }
  for (size_t m = 0; m < sides.size(); ++m) {
    for (size_t j = 0; j < sides.size(); ++j) {
      if (j != m) status.Update(resources_.calls->Wait(StreamOf(program_.task(sides[m])), events[j]));
    }
  }
  return status;
}

absl::Status CudaProgram::RunAll(absl::Span<const TaskId> sides, size_t phase, int64_t step) {
  const bool is_group =
      std::any_of(sides.begin(), sides.end(), [&](TaskId side) { return HasRankCalls(tasks_[side.value].phases[phase]); });
  absl::Status status = is_group ? resources_.calls->BeginGroup() : absl::OkStatus();
  for (TaskId side : sides) status.Update(Run(program_.task(side), phase, step));
  if (is_group) status.Update(resources_.calls->EndGroup());
  return status;
}

absl::Status CudaProgram::RunMeeting(absl::Span<const TaskId> sides, int64_t step) {
  const LoadedTask& first = tasks_[sides[0].value];
  const Barriers& barriers = events_.barriers[sides[0].value];
  absl::Status status = first.meets ? MeetAll(sides, barriers[0]) : absl::OkStatus();
  for (TaskId side : sides) status.Update(Begin(program_.task(side), step));
  for (size_t phase = 0; phase < first.phases.size() && status.ok(); ++phase) {
    status.Update(RunAll(sides, phase, step));
    if (first.meets) status.Update(MeetAll(sides, barriers[phase + 1]));
  }
  for (TaskId side : sides) status.Update(End(program_.task(side), step));
  return status;
}

void CudaProgram::FailUnlessOk(const absl::Status& status) {
  (mode_ == StepMode::kCapture && !captured_.empty() ? capture_status_ : status_).Update(status);
}

absl::Status CudaProgram::BeginStep(int64_t step) {
  absl::Status status;
  for (size_t d = 0; d < events_.origins.size(); ++d) {
    status.Update(
        resources_.calls->Record(events_.origins[d].began[step % 3], resources_.devices[d].stream(Lane::kCompute)));
  }
  return status;
}

// What is loaded goes where the step two before read: it has ended first, whoever launches how much ahead.
absl::Status CudaProgram::FreeSlots(int parity) {
  absl::Status status;
  for (size_t d = 0; d < events_.lane_ended.size(); ++d) {
    const Stream& loads = resources_.devices[d].stream(Lane::kLoad);
    if (is_graph_[parity]) {
      status.Update(resources_.calls->Wait(loads, graphs_.ended(parity)));
      continue;
    }
    for (Event event : events_.lane_ended[d][parity]) status.Update(resources_.calls->Wait(loads, event));
  }
  return status;
}

// The first step begins on all devices at once: they have nothing else to do.
absl::Status CudaProgram::TakeOrigins(int64_t step) {
  for (StepOrigin& origin : events_.origins) {
    double& seconds = origin.seconds[step % 3];
    seconds = 0;
    RETURN_IF_ERROR(resources_.calls->Synchronize(origin.began[step % 3]));
    if (step == first_step_) continue;
    const int before = static_cast<int>((step - 1) % 3);
    ASSIGN_OR_RETURN(double between, resources_.calls->SecondsBetween(origin.began[before], origin.began[step % 3]));
    seconds = origin.seconds[before] + between;
  }
  return absl::OkStatus();
}

void CudaProgram::Drain() {
  if (drained_) return;
  drained_ = true;
  for (size_t d = 0; d < events_.now.size(); ++d) {
    for (const Stream& stream : resources_.devices[d].streams) {
      // Errors were noted before. Where one stream does not end in time, the others may not either, each after as long.
      if (!resources_.calls->Record(events_.now[d], stream).ok()) continue;
      if (absl::IsUnavailable(resources_.calls->Synchronize(events_.now[d]))) return;
    }
  }
}

absl::Status CudaProgram::Synchronize(int64_t step) {
  if (!any_launched_ || step < first_step_) return status_;
  if (status_.ok() && queues_.held() > 0 && step >= last_step_) {
    FailUnlessOk(absl::InternalError("a step was not launched whole: commands wait for tasks that were not launched"));
  }
  // A lane's end of a step implies all that it did before. The next step may be under way, and is not waited for.
  const int64_t last = std::min(step, last_step_);
  if (is_graph_[last % 2]) {
    if (status_.ok()) FailUnlessOk(resources_.calls->Synchronize(graphs_.ended(static_cast<int>(last % 2))));
  } else {
    for (auto& of_device : events_.lane_ended) {
      for (Event event : of_device[last % 2]) {
        if (status_.ok()) FailUnlessOk(resources_.calls->Synchronize(event));
      }
    }
  }
  if (status_.ok()) FailUnlessOk(TakeOrigins(last));
  if (!status_.ok()) Drain();
  if (status_.ok() && step <= last_step_) staging_.DeliverOutputs(step);
  return status_;
}

std::vector<engine::TaskTime> CudaProgram::Times(int64_t step) const {
  std::vector<engine::TaskTime> times(tasks_.size());
  for (const Task& task : program_.tasks) {
    if (events_.origins.empty()) break;
    const TaskEvents& events = events_.tasks[task.id.value];
    const StepOrigin& origin = events_.origins[task.device];
    const Event began = origin.began[step % 3];
    const absl::StatusOr<double> start = resources_.calls->SecondsBetween(began, events.start[step % 2]);
    const absl::StatusOr<double> end = resources_.calls->SecondsBetween(began, events.end[step % 2]);
    const double seconds = origin.seconds[step % 3];
    if (start.ok() && end.ok()) times[task.id.value] = {absl::Seconds(seconds + *start), absl::Seconds(seconds + *end)};
  }
  return times;
}

}  // namespace colonnade::cuda
