// Whole steps as CUDA graphs, one for each slot: captured once, launched with one call from then on.
//
// One capture spans all devices: it begins on the first device's compute stream, which all others fork from and join again.
// Lane load stays outside, so that it may be ahead: a graph begins when its step's loads have ended. Learning rate, step
// number and seed are data of the step scalars. Steps that are graphs run one after the other. Steps with collectives of
// NCCL are never graphs: NCCL warns of deadlocks where one thread captures and launches for several GPUs.
#ifndef COLONNADE_CUDA_STEP_GRAPHS_H_
#define COLONNADE_CUDA_STEP_GRAPHS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "cuda/device.h"
#include "cuda/load/step_events.h"
#include "program/program.h"

namespace colonnade::cuda {

enum class StepMode {
  kEager,    // every call is enqueued
  kCapture,  // every call goes into a graph, which is then launched
  kLaunch,   // the graph of an earlier step of the same slot is launched
};
// Returns how the step after `steps_before` others runs; `has_graph`: its slot has a graph.
StepMode ModeOfStep(bool graphs, int64_t steps_before, bool has_graph);

class StepGraphs {
 public:
  // `resources` must outlive the result; its first `devices` take part.
  StepGraphs(Resources& resources, int devices) : resources_(resources), joined_(devices) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  void MakeEvents(EventPool& pool);

  // Forgets the graphs. REQUIRES: none runs.
  void Forget();

  bool has_graph(int parity) const { return graphs_[parity] != nullptr; }
  // Returns where graphs begin and end: the first device's compute stream.
  const Stream& stream() const { return resources_.devices[0].stream(program::Lane::kCompute); }
  // Recorded behind each launch of a graph.
  Event ended(int parity) const { return ended_[parity]; }

  // Begins a capture: until EndCapture, what is enqueued on any stream but lane load's is captured and does not run.
  absl::Status BeginCapture();
  // Ends the capture in any case; keeps its graph for `parity` if all of it, `captured` included, went well.
  absl::Status EndCapture(int parity, absl::Status captured);
  // Launches the graph of `parity` behind all that was enqueued on any stream but lane load's; what comes later there waits
  // for it.
  absl::Status Launch(int parity);

 private:
  template <class F>
  absl::Status ForOtherStreams(F f);
  // Makes stream() wait for all others.
  absl::Status Join();

  Resources& resources_;
  bool is_capturing_ = false;
  std::array<Graph, 2> graphs_ = {nullptr, nullptr};  // by step parity, as ended_
  ByParity ended_ = {nullptr, nullptr};
  std::vector<std::array<Event, program::kLaneCount>> joined_;  // by device: forks and joins
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_STEP_GRAPHS_H_
