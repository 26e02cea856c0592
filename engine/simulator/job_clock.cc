#include "engine/simulator/job_clock.h"

#include <algorithm>
#include <limits>

namespace colonnade::engine {

void JobClock::Demand(double now, double cores) {
  Settle(now);
  demand_ += cores;
}

void JobClock::Start(double now, int job, double seconds) {
  Settle(now);
  SetEnd(job, clock_ + seconds);
}

void JobClock::Stretch(double now, int job, double factor) {
  Settle(now);
  SetEnd(job, clock_ + factor * (end_of_[job].at - clock_));
}

double JobClock::SecondsLeft(double now, int job) {
  Settle(now);
  return end_of_[job].at - clock_;
}

double JobClock::NextEnd(double now) {
  while (!ends_.empty() && ends_.top().order != end_of_[ends_.top().job].order) ends_.pop();
  if (ends_.empty()) return std::numeric_limits<double>::infinity();
  if (!SharesCores()) return ends_.top().at;
  Settle(now);
  return now + std::max(0.0, ends_.top().at - clock_) / Speed();
}

int JobClock::EndNext() {
  const int job = ends_.top().job;
  ends_.pop();
  return job;
}

void JobClock::SetEnd(int job, double at) {
  end_of_[job] = {at, next_order_++, job};
  ends_.push(end_of_[job]);
}

// Brings the clock up to now.
void JobClock::Settle(double now) {
  clock_ = SharesCores() ? clock_ + (now - settled_) * Speed() : now;
  settled_ = now;
}

}  // namespace colonnade::engine
