#include "cuda/load/step_graphs.h"

#include "base/status_macros.h"

namespace colonnade::cuda {

using program::Lane;

StepMode ModeOfStep(bool graphs, int64_t steps_before, bool has_graph) {
  // Libraries set themselves up in the first steps, which a capture would not allow.
  constexpr int64_t kEagerSteps = 2;
  if (!graphs || steps_before < kEagerSteps) return StepMode::kEager;
  return has_graph ? StepMode::kLaunch : StepMode::kCapture;
}

StepGraphs::~StepGraphs() { Forget(); }

void StepGraphs::Forget() {
  for (Graph& graph : graphs_) {
    if (graph != nullptr) resources_.calls->Destroy(graph);
    graph = nullptr;
  }
}

void StepGraphs::MakeEvents(EventPool& pool) {
  for (size_t d = 0; d < joined_.size(); ++d) {
    for (Event& event : joined_[d]) event = pool.Make(static_cast<int>(d));
  }
  ended_ = pool.MakePair(0);
}

// Every stream of a graph but stream(), with the event of its joining.
template <class F>
absl::Status StepGraphs::ForOtherStreams(F f) {
  absl::Status status;
  for (size_t d = 0; d < joined_.size(); ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      if (l == static_cast<int>(Lane::kLoad) || (d == 0 && l == static_cast<int>(Lane::kCompute))) continue;
      status.Update(f(resources_.devices[d].streams[l], joined_[d][l]));
    }
  }
  return status;
}

absl::Status StepGraphs::Join() {
  return ForOtherStreams([&](const Stream& other, Event event) {
    absl::Status joined = resources_.calls->Record(event, other);
    joined.Update(resources_.calls->Wait(stream(), event));
    return joined;
  });
}

absl::Status StepGraphs::BeginCapture() {
  RETURN_IF_ERROR(resources_.calls->BeginCapture(stream()));
  is_capturing_ = true;
  const Event fork = joined_[0][static_cast<int>(Lane::kCompute)];
  RETURN_IF_ERROR(resources_.calls->Record(fork, stream()));
  return ForOtherStreams([&](const Stream& other, Event) { return resources_.calls->Wait(other, fork); });
}

absl::Status StepGraphs::EndCapture(int parity, absl::Status captured) {
  if (!is_capturing_) return captured;
  is_capturing_ = false;
  if (captured.ok()) captured = Join();
  // In any case: a stream that is being captured runs nothing.
  const absl::StatusOr<Graph> graph = resources_.calls->EndCapture(stream());
  captured.Update(graph.status());
  if (captured.ok()) {
    graphs_[parity] = *graph;
  } else if (graph.ok()) {
    resources_.calls->Destroy(*graph);
  }
  return captured;
}

absl::Status StepGraphs::Launch(int parity) {
  absl::Status status = Join();
  status.Update(resources_.calls->Launch(graphs_[parity], stream()));
  status.Update(resources_.calls->Record(ended_[parity], stream()));
  status.Update(ForOtherStreams([&](const Stream& other, Event) { return resources_.calls->Wait(other, ended_[parity]); }));
  return status;
}

}  // namespace colonnade::cuda
