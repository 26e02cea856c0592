// Orders the lanes of a device among each other: a command that is pushed to all of them at once, and that none of them
// passes before all have reached it. So what is pushed to any lane behind it begins after all that was pushed before has
// ended. A lane has a thread of its own, so that nothing else can keep a lane from reaching it.
#ifndef COLONNADE_CPU_FENCE_H_
#define COLONNADE_CPU_FENCE_H_

#include <cstdint>

#include "cpu/threads/queue.h"
#include "cpu/threads/rendezvous.h"

namespace colonnade::cpu {

class LaneFence : public CommandHandler {
 public:
  explicit LaneFence(int lanes) : lanes_(lanes) {}

  void RunTask(int32_t, int64_t) override { lanes_.Meet(); }
  void WaitForTask(int32_t, int64_t) override {}

 private:
  Rendezvous lanes_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_FENCE_H_
