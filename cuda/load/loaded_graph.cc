// A whole step as one CUDA graph for each slot: captured once, launched with one call from then on.
//
// One capture spans all devices: it begins on the first device's compute stream, which all others fork from and join again.
// Copies from the host into landings stay outside, so that those of the next step run under this one; learning rate, step
// number and seed are data of the step scalars. Steps that are graphs run one after the other. Steps with collectives of
// NCCL are never graphs: NCCL warns of deadlocks where one thread captures and launches for several GPUs.
#include <utility>

#include "cuda/load/loaded.h"
#include "cuda/status.h"
#include "program/status_macros.h"

namespace colonnade::cuda {

using program::Lane;
using program::Task;

StepMode ModeOfStep(bool graphs, int64_t steps_before, bool has_graph) {
  // Libraries set themselves up in the first steps, which a capture would not allow.
  constexpr int64_t kEagerSteps = 2;
  if (!graphs || steps_before < kEagerSteps) return StepMode::kEager;
  return has_graph ? StepMode::kLaunch : StepMode::kCapture;
}

void CudaProgram::StartStep(int64_t step) {
  if (any_launched_ && (step == last_step_ || launched_in_step_ < tasks_.size())) return;
  if (!any_launched_) first_step_ = step;
  // Steps that do not follow each other are none of a training's.
  if (any_launched_ && step != last_step_ + 1) graphs_on_ = false;
  after_graph_ = any_launched_ && kind_ != StepMode::kEager;
  any_launched_ = true;
  last_step_ = step;
  launched_in_step_ = 0;
  kind_ = ModeOfStep(graphs_on_ && status_.ok(), step - first_step_, graphs_[step % 2] != nullptr);
  is_graph_[step % 2] = kind_ != StepMode::kEager;
  Note(BeginStep(step));
  if (kind_ != StepMode::kCapture) return;
  capture_status_ = BeginCapture();
  if (!capture_status_.ok()) GiveUpCapture();
}

// What cannot be captured runs as before.
void CudaProgram::GiveUpCapture() {
  EndCapture().IgnoreError();
  graphs_on_ = false;
  is_graph_[last_step_ % 2] = false;
  kind_ = StepMode::kEager;
  queues_.Rewind(last_step_);
  for (const Launched& launched : std::exchange(captured_, {})) Issue(launched);
}

void CudaProgram::EndStep() {
  if (kind_ == StepMode::kEager || !status_.ok()) return;
  if (kind_ == StepMode::kCapture && !EndCapture().ok()) return GiveUpCapture();
  captured_.clear();
  Note(LaunchGraph());
}

// Every stream but the first device's compute stream, where graphs begin and end, with the event of its joining.
template <class F>
absl::Status CudaProgram::ForOtherStreams(F f) {
  absl::Status status;
  for (int d = 0; d < program_.device_count; ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      if (d == 0 && l == static_cast<int>(Lane::kCompute)) continue;
      status.Update(f(resources_.devices[d].streams[l], joined_[d][l]));
    }
  }
  return status;
}

absl::Status CudaProgram::BeginCapture() {
  Calls& calls = *resources_.calls;
  RETURN_IF_ERROR(calls.BeginCapture(GraphStream()));
  is_capturing_ = true;
  const Event fork = joined_[0][static_cast<int>(Lane::kCompute)];
  RETURN_IF_ERROR(calls.Record(fork, GraphStream()));
  return ForOtherStreams([&](const Stream& stream, Event) { return calls.Wait(stream, fork); });
}

absl::Status CudaProgram::EndCapture() {
  Calls& calls = *resources_.calls;
  if (!is_capturing_) return capture_status_;
  is_capturing_ = false;
  absl::Status status = capture_status_;
  if (status.ok()) {
    status = ForOtherStreams([&](const Stream& stream, Event event) {
      absl::Status joined = calls.Record(event, stream);
      joined.Update(calls.Wait(GraphStream(), event));
      return joined;
    });
  }
  // In any case: a stream that is being captured runs nothing.
  absl::StatusOr<Graph> graph = calls.EndCapture(GraphStream());
  if (graph.ok() && status.ok()) {
    graphs_[last_step_ % 2] = *graph;
    return absl::OkStatus();
  }
  if (graph.ok()) calls.Destroy(*graph);
  status.Update(graph.status());
  return capture_status_ = status;
}

// After all that was enqueued before, on any stream; all that comes later waits for it.
absl::Status CudaProgram::LaunchGraph() {
  Calls& calls = *resources_.calls;
  const int parity = static_cast<int>(last_step_ % 2);
  absl::Status status;
  for (const Task& task : program_.tasks) {
    if (tasks_[task.id.value].landing_bytes == 0) continue;
    status.Update(Fetch(task, last_step_));
    status.Update(calls.Wait(GraphStream(), events_[task.id.value].landed[parity]));
  }
  status.Update(ForOtherStreams([&](const Stream& stream, Event event) {
    absl::Status joined = calls.Record(event, stream);
    joined.Update(calls.Wait(GraphStream(), event));
    return joined;
  }));
  status.Update(calls.Launch(graphs_[parity], GraphStream()));
  status.Update(calls.Record(graph_ended_[parity], GraphStream()));
  status.Update(ForOtherStreams([&](const Stream& stream, Event) { return calls.Wait(stream, graph_ended_[parity]); }));
  return status;
}

}  // namespace colonnade::cuda
