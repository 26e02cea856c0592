// Flows that share the rates of resources by max-min fairness: a flow's rate can only be raised by lowering that of a flow
// that is no faster.
//
// Source: Bertsekas, Gallager 1992, Data Networks, section 6.5.2 (progressive filling).
#ifndef COLONNADE_ENGINE_SIMULATOR_FAIR_SHARE_H_
#define COLONNADE_ENGINE_SIMULATOR_FAIR_SHARE_H_

#include <deque>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace colonnade::engine {

class FairShare {
 public:
  // A resource, and how many flows like this one take it: 1, or more where a flow stands for others that run beside it.
  struct Use {
    int resource = 0;
    double flows = 1;
  };
  using Uses = absl::InlinedVector<Use, 6>;

  explicit FairShare(std::vector<double> capacities) : capacities_(std::move(capacities)) {}

  // Starts a flow of `bytes` for `owner` at no more than `max_rate` bytes per second. Any number may start and end at one
  // time before rates are shared anew.
  void Start(double now, int owner, double bytes, double max_rate, const Uses& uses);
  // Returns when the next flow ends; infinity if none runs. REQUIRES: it is asked before time goes on from the last Start or
  // EndNext.
  double NextEnd();
  // Ends that flow and returns its owner. REQUIRES: now ≥ NextEnd().
  int EndNext(double now);

 private:
  struct Flow {
    int owner;
    double left, max_rate, rate, end;
    Uses uses;
  };
  void Settle(double now);
  void Share();
  double BoundOf(const Flow& flow) const;
  void TakeOutEnded();

  const std::vector<double> capacities_;
  std::vector<Flow> flows_;
  std::deque<int> ended_;  // owners of flows that end at settled_, which hold nothing any more
  bool is_shared_ = true;
  double settled_ = 0, next_end_ = kNoEnd;
  static constexpr double kNoEnd = __builtin_inf();
  // Scratch of Share.
  std::vector<double> free_;     // by resource
  std::vector<double> sharing_;  // by resource: open flows that take it
  std::vector<Flow*> open_;      // without a rate yet
  std::vector<double> bound_;    // by open flow
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_FAIR_SHARE_H_
