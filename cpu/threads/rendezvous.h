// Where the sides of a message, or the members of a collective, meet: a barrier that can be used again and broken.
//
// A transfer meets twice, before it moves data (all operands are ready) and after it (all operands are free again).
#ifndef COLONNADE_CPU_RENDEZVOUS_H_
#define COLONNADE_CPU_RENDEZVOUS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace colonnade::cpu {

class Rendezvous {
 public:
  explicit Rendezvous(int parties) : parties_(parties) {}

  // Blocks until all parties have called; false if it was broken instead.
  bool Meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (broken_) return false;
    const uint64_t meeting = meeting_;
    if (++arrived_ == parties_) {
      arrived_ = 0;
      ++meeting_;
      all_arrived_.notify_all();
      return true;
    }
    all_arrived_.wait(lock, [&] { return meeting_ != meeting || broken_; });
    return meeting_ != meeting;
  }

  // Lets all who wait, now or later, go on without the others.
  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    all_arrived_.notify_all();
  }

 private:
  const int parties_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  int arrived_ = 0;
  uint64_t meeting_ = 0;
  bool broken_ = false;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_RENDEZVOUS_H_
