#include "engine/simulator/running_flows.h"

#include <algorithm>

namespace colonnade::engine {

void RunningFlows::Start(double now, int job, const std::vector<FlowOnRoute>& flows, double bytes) {
  for (const FlowOnRoute& flow : flows) waiting_.push_back({job, &flow, flow.bytes * bytes});
  StartWaiting(now);
}

int RunningFlows::EndNext(double now) {
  const int slot = share_.EndNext(now);
  const FlowOfJob ended = running_[slot];
  free_slots_.push_back(slot);
  for (int engine : ended.flow->engines) is_taken_[engine] = false;
  if (!waiting_.empty()) StartWaiting(now);
  return ended.job;
}

bool RunningFlows::StartIfFree(double now, const FlowOfJob& waiting) {
  const FlowOnRoute& flow = *waiting.flow;
  if (std::any_of(flow.engines.begin(), flow.engines.end(), [&](int engine) { return is_taken_[engine]; })) return false;
  for (int engine : flow.engines) is_taken_[engine] = true;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int>(running_.size()));
    running_.emplace_back();
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  running_[slot] = waiting;
  share_.Start(now, slot, waiting.bytes, flow.max_rate, flow.uses);
  return true;
}

void RunningFlows::StartWaiting(double now) {
  size_t kept = 0;
  for (const FlowOfJob& flow : waiting_) {
    if (!StartIfFree(now, flow)) waiting_[kept++] = flow;
  }
  waiting_.resize(kept);
}

}  // namespace colonnade::engine
