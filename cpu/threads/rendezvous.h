// Where the sides of a message, the members of a collective, or the lanes of a device meet: a barrier that can be used again
// until it is broken, which is for good.
//
// A transfer meets before it moves data (all operands are ready) and parts after it (all operands are free again). Those who
// have met all come to part, so that nothing breaks that off: whoever goes on leaves nobody behind who still reads what it
// holds.
#ifndef COLONNADE_CPU_RENDEZVOUS_H_
#define COLONNADE_CPU_RENDEZVOUS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace colonnade::cpu {

class Rendezvous {
 public:
  explicit Rendezvous(int parties) : parties_(parties) {}

  // Blocks until all parties have called; false, for all of them, if it was broken before that.
  bool Meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (broken_) return false;
    return Arrive(lock, [this] { return broken_; });
  }

  // Blocks until all parties have called. REQUIRES: they have met.
  void Part() {
    std::unique_lock<std::mutex> lock(mutex_);
    Arrive(lock, [] { return false; });
  }

  // Lets all who wait in Meet, or come to it later, go on without the others.
  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    all_arrived_.notify_all();
  }

 private:
  // Whether all have arrived, rather than `gives_up`.
  template <class GivesUp>
  bool Arrive(std::unique_lock<std::mutex>& lock, const GivesUp& gives_up) {
    const uint64_t meeting = meeting_;
    if (++arrived_ == parties_) {
      arrived_ = 0;
      ++meeting_;
      all_arrived_.notify_all();
      return true;
    }
    all_arrived_.wait(lock, [&] { return meeting_ != meeting || gives_up(); });
    return meeting_ != meeting;
  }

  const int parties_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  int arrived_ = 0;
  uint64_t meeting_ = 0;
  bool broken_ = false;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_RENDEZVOUS_H_
