// Flows that share the rates of resources by max-min fairness: a flow's rate can only be raised by lowering that of a flow
// that is no faster.
//
// Source: Bertsekas, Gallager 1992, Data Networks, section 6.5.2 (progressive filling).
#ifndef COLONNADE_ENGINE_FAIR_SHARE_H_
#define COLONNADE_ENGINE_FAIR_SHARE_H_

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace colonnade::engine {

class FairShare {
 public:
  explicit FairShare(std::vector<double> capacities) : capacities_(std::move(capacities)) {}

  // A flow of `bytes` for `owner` at no more than `most` bytes per second; Share must follow before time goes on.
  void Start(double now, int owner, double bytes, double most, const absl::InlinedVector<int, 6>& resources);
  void Share();
  // When the next flow ends; infinity if none runs.
  double NextEnd() const { return next_end_; }
  // Ends that flow, shares anew, and returns its owner. REQUIRES: now ≥ NextEnd().
  int EndNext(double now);

 private:
  struct Flow {
    int owner;
    double left, most, rate;
    absl::InlinedVector<int, 6> resources;
  };
  void Settle(double now);

  const std::vector<double> capacities_;
  std::vector<Flow> flows_;
  double settled_ = 0, next_end_ = kNoEnd;
  int next_ = -1;
  static constexpr double kNoEnd = __builtin_inf();
  std::vector<double> free_;  // scratch of Share: by resource
  std::vector<int> sharing_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_FAIR_SHARE_H_
