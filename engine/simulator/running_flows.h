// Internal to engine/. The flows of jobs over the links of a machine. They share links fairly; where routes pass copy
// engines, each of those serves one flow after the other.
#ifndef COLONNADE_ENGINE_SIMULATOR_RUNNING_FLOWS_H_
#define COLONNADE_ENGINE_SIMULATOR_RUNNING_FLOWS_H_

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/simulator/fair_share.h"
#include "engine/simulator/jobs.h"

namespace colonnade::engine {

class RunningFlows {
 public:
  RunningFlows(std::vector<double> capacities, int engines)
      : share_(std::move(capacities)), is_taken_(engines, false), waiting_for_(engines) {}

  // Starts all flows of a leg of `bytes`; `flows` must outlive them. A flow waits, in the order of the calls, until its
  // engines are free.
  void Start(double now, int job, const std::vector<FlowOnRoute>& flows, double bytes);
  // Returns when the next flow ends; infinity if none runs. REQUIRES: it is asked before time goes on from the last Start or
  // EndNext.
  double NextEnd() { return share_.NextEnd(); }
  // Ends that flow, and returns its job. REQUIRES: now ≥ NextEnd().
  int EndNext(double now);

 private:
  struct FlowOfJob {
    int job = 0;
    const FlowOnRoute* flow = nullptr;
    double bytes = 0;
  };
  bool MayRun(const FlowOfJob& flow) const;
  void Run(double now, const FlowOfJob& flow);
  void Wait(const FlowOfJob& flow);
  void StartWaitingFor(double now, absl::Span<const int> engines);
  void ForgetStarted();

  FairShare share_;
  std::vector<bool> is_taken_;                 // by engine
  std::vector<FlowOfJob> waiting_;             // in the order in which they came; without a flow once that has started
  std::vector<std::vector<int>> waiting_for_;  // by engine: places in waiting_, ascending, some of which have started
  int waiting_count_ = 0;
  std::vector<int> candidates_;     // of StartWaitingFor
  std::vector<FlowOfJob> running_;  // by slot, FairShare's owners
  std::vector<int> free_slots_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_RUNNING_FLOWS_H_
