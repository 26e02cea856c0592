#include "engine/fair_share.h"

#include <algorithm>

namespace colonnade::engine {

void FairShare::Start(double now, int owner, double bytes, double most, const absl::InlinedVector<int, 6>& resources) {
  Settle(now);
  flows_.push_back({owner, bytes, most, 0, resources});
}

void FairShare::Settle(double now) {
  for (Flow& flow : flows_) flow.left = std::max(0.0, flow.left - flow.rate * (now - settled_));
  settled_ = now;
}

void FairShare::Share() {
  free_ = capacities_;
  sharing_.assign(capacities_.size(), 0);
  size_t open = flows_.size();
  for (Flow& flow : flows_) {
    flow.rate = -1;
    for (int r : flow.resources) ++sharing_[r];
  }
  // The tightest bound fixes rates: that of a resource those of all flows that take it, that of a flow its own.
  while (open > 0) {
    int tightest = -1;
    double least = kNoEnd;
    for (const Flow& flow : flows_) {
      if (flow.rate >= 0) continue;
      if (flow.most < least) least = flow.most, tightest = -1;
      for (int r : flow.resources) {
        const double share = free_[r] / sharing_[r];
        if (share < least) least = share, tightest = r;
      }
    }
    for (Flow& flow : flows_) {
      if (flow.rate >= 0) continue;
      const bool takes = std::find(flow.resources.begin(), flow.resources.end(), tightest) != flow.resources.end();
      if (tightest >= 0 ? !takes : flow.most > least) continue;
      flow.rate = least;
      --open;
      for (int r : flow.resources) {
        free_[r] = std::max(0.0, free_[r] - least);
        --sharing_[r];
      }
    }
  }
  next_end_ = kNoEnd;
  next_ = -1;
  for (size_t i = 0; i < flows_.size(); ++i) {
    const double end = settled_ + (flows_[i].left > 0 ? flows_[i].left / flows_[i].rate : 0.0);
    if (next_ >= 0 && end >= next_end_) continue;
    next_end_ = end;
    next_ = static_cast<int>(i);
  }
}

int FairShare::EndNext(double now) {
  Settle(now);
  const int owner = flows_[next_].owner;
  flows_[next_] = std::move(flows_.back());
  flows_.pop_back();
  Share();
  return owner;
}

}  // namespace colonnade::engine
