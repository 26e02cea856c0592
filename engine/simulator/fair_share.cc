#include "engine/simulator/fair_share.h"

#include <algorithm>

namespace colonnade::engine {

void FairShare::Start(double now, int owner, double bytes, double max_rate, const Uses& uses) {
  Settle(now);
  flows_.push_back({owner, bytes, max_rate, 0, kNoEnd, uses});
  is_shared_ = false;
}

void FairShare::Settle(double now) {
  if (now == settled_) return;
  for (Flow& flow : flows_) flow.left = std::max(0.0, flow.left - flow.rate * (now - settled_));
  settled_ = now;
}

// The least that one of the flow's resources, or its own rate, would give it if no other bound came first.
double FairShare::BoundOf(const Flow& flow) const {
  double bound = flow.max_rate;
  for (const Use& use : flow.uses) bound = std::min(bound, free_[use.resource] / sharing_[use.resource]);
  return bound;
}

void FairShare::Share() {
  free_ = capacities_;
  sharing_.assign(capacities_.size(), 0);
  open_.clear();
  for (Flow& flow : flows_) {
    open_.push_back(&flow);
    for (const Use& use : flow.uses) sharing_[use.resource] += use.flows;
  }
  // The tightest bound fixes the rates of all flows that have it, at once.
  while (!open_.empty()) {
    bound_.clear();
    for (const Flow* flow : open_) bound_.push_back(BoundOf(*flow));
    const double least = *std::min_element(bound_.begin(), bound_.end());
    size_t kept = 0;
    for (size_t i = 0; i < open_.size(); ++i) {
      Flow& flow = *open_[i];
      if (bound_[i] > least) {
        open_[kept++] = &flow;
        continue;
      }
      flow.rate = least;
      for (const Use& use : flow.uses) {
        free_[use.resource] = std::max(0.0, free_[use.resource] - least * use.flows);
        sharing_[use.resource] -= use.flows;
      }
    }
    open_.resize(kept);
  }
  next_end_ = kNoEnd;
  for (Flow& flow : flows_) {
    flow.end = settled_ + (flow.left > 0 ? flow.left / flow.rate : 0.0);
    next_end_ = std::min(next_end_, flow.end);
  }
  is_shared_ = true;
}

double FairShare::NextEnd() {
  if (!ended_.empty()) return settled_;
  if (!is_shared_) Share();
  return next_end_;
}

// Flows that are alike end together, and rates are shared anew once for all of them.
void FairShare::TakeOutEnded() {
  const auto still_runs = [&](const Flow& flow) { return flow.end > next_end_; };
  for (const Flow& flow : flows_) {
    if (!still_runs(flow)) ended_.push_back(flow.owner);
  }
  std::erase_if(flows_, [&](const Flow& flow) { return !still_runs(flow); });
  is_shared_ = false;
}

int FairShare::EndNext(double now) {
  if (ended_.empty()) {
    Settle(now);
    TakeOutEnded();
  }
  const int owner = ended_.front();
  ended_.pop_front();
  return owner;
}

}  // namespace colonnade::engine
