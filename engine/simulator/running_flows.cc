#include "engine/simulator/running_flows.h"

#include <algorithm>

namespace colonnade::engine {

void RunningFlows::Start(double now, int job, const std::vector<FlowOnRoute>& flows, double bytes) {
  for (const FlowOnRoute& flow : flows) {
    const FlowOfJob one{job, &flow, flow.bytes * bytes};
    MayRun(one) ? Run(now, one) : Wait(one);
  }
}

int RunningFlows::EndNext(double now) {
  const int slot = share_.EndNext(now);
  const FlowOfJob ended = running_[slot];
  free_slots_.push_back(slot);
  for (int engine : ended.flow->engines) is_taken_[engine] = false;
  StartWaitingFor(now, ended.flow->engines);
  return ended.job;
}

bool RunningFlows::MayRun(const FlowOfJob& flow) const {
  const auto& engines = flow.flow->engines;
  return std::none_of(engines.begin(), engines.end(), [&](int engine) { return is_taken_[engine]; });
}

void RunningFlows::Run(double now, const FlowOfJob& flow) {
  for (int engine : flow.flow->engines) is_taken_[engine] = true;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int>(running_.size()));
    running_.emplace_back();
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  running_[slot] = flow;
  share_.Start(now, slot, flow.bytes, flow.flow->max_rate, flow.flow->uses);
}

void RunningFlows::Wait(const FlowOfJob& flow) {
  for (int engine : flow.flow->engines) waiting_for_[engine].push_back(static_cast<int>(waiting_.size()));
  waiting_.push_back(flow);
  ++waiting_count_;
}

// Of all flows that wait, those alone may start that wait for engines which have become free.
void RunningFlows::StartWaitingFor(double now, absl::Span<const int> engines) {
  candidates_.clear();
  for (int engine : engines) {
    std::vector<int>& queue = waiting_for_[engine];
    std::erase_if(queue, [&](int place) { return waiting_[place].flow == nullptr; });
    const auto middle = candidates_.insert(candidates_.end(), queue.begin(), queue.end());
    std::inplace_merge(candidates_.begin(), middle, candidates_.end());
  }
  for (int place : candidates_) {
    FlowOfJob& flow = waiting_[place];
    if (flow.flow == nullptr || !MayRun(flow)) continue;
    Run(now, flow);
    flow.flow = nullptr;
    if (--waiting_count_ == 0) return ForgetStarted();
  }
}

void RunningFlows::ForgetStarted() {
  waiting_.clear();
  for (std::vector<int>& queue : waiting_for_) queue.clear();
}

}  // namespace colonnade::engine
