// Internal to engine/. Tells when the parts of jobs end that take seconds of their own. Where devices share cores
// (Machine::cores), all that runs at once slows down alike: those parts go by a clock, and it goes at the speed that the
// cores allow.
#ifndef COLONNADE_ENGINE_SIMULATOR_JOB_CLOCK_H_
#define COLONNADE_ENGINE_SIMULATOR_JOB_CLOCK_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace colonnade::engine {

// Every call is told what time it is, which never goes back.
class JobClock {
 public:
  // `cores`: that are shared; 0: each job has its own.
  JobClock(double cores, size_t jobs) : cores_(cores), end_of_(jobs) {}

  // Adds so many cores (of jobs that have ended: less than 0) to those that running jobs want.
  void Demand(double now, double cores);

  // Starts a part of `job` that takes `seconds` at full speed.
  void Start(double now, int job, double seconds);
  // Makes what is left of the part of `job` take `factor` times as long.
  void Stretch(double now, int job, double factor);
  // Returns what is left of the part of `job`, in seconds at full speed.
  double SecondsLeft(double now, int job);

  // Returns when the next part ends, if nothing changes until then; infinity where none runs.
  double NextEnd(double now);
  // Ends that part, and returns its job. Of those that end at one time that comes first which began, or was
  // stretched, first. REQUIRES: one runs.
  int EndNext();

 private:
  struct End {
    double at = 0;  // on the clock
    int64_t order = 0;
    int job = 0;
    bool operator>(const End& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };
  void SetEnd(int job, double at);
  void Settle(double now);
  double Speed() const { return demand_ > cores_ ? cores_ / demand_ : 1.0; }
  bool SharesCores() const { return cores_ > 0; }

  const double cores_;
  double demand_ = 0, settled_ = 0;
  double clock_ = 0;         // at settled_
  std::vector<End> end_of_;  // by job: of the part that runs; others in the queue hold no more
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  int64_t next_order_ = 1;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_JOB_CLOCK_H_
