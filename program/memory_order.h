// Which roots of a device are never in use at the same time, by lane order and waits alone. Internal to program/.
//
// Immutable after construction; threads may share it.
#ifndef COLONNADE_PROGRAM_MEMORY_ORDER_H_
#define COLONNADE_PROGRAM_MEMORY_ORDER_H_

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "program/dag.h"
#include "program/program.h"

namespace colonnade::program {

class MemoryOrder {
 public:
  // Orders the roots of each class's first device alone.
  MemoryOrder(const Program& program, const DeviceClasses& classes);

  // Whether each step has ended all uses of one root before it starts any use of the other, and those of the other before
  // the next step starts any use of the first. O(lanes).
  bool Apart(BufferId a, BufferId b) const { return Before(a, b) || Before(b, a); }

  // Returns two tasks that keep `a` from being `b`'s predecessor in memory: the first uses one root and is not known to have
  // ended when the second, which uses the other, starts. Empty if there are none.
  std::optional<std::pair<TaskId, TaskId>> Clash(BufferId a, BufferId b) const;

 private:
  // All uses of a root.
  struct Span {
    std::array<TaskId, kLaneCount> first, last;       // of each lane; invalid ids where a lane has none
    std::array<int64_t, kLaneCount> last_position;    // of `last`, relative to its step; very small where a lane has none
    std::array<int64_t, kLaneCount> ended;            // how many tasks of a lane have ended before any use starts
    std::array<int64_t, kLaneCount> ended_in_before;  // the same, counted in the step before
  };

  // Whether all uses of `a` have ended when `b`'s start, and all uses of `b` when those of `a` in the next step start.
  bool Before(BufferId a, BufferId b) const;

  const Span& SpanOf(BufferId root) const { return spans_[span_of_[root.value]]; }

  HappensBefore order_;
  std::vector<Span> spans_;
  std::vector<int> span_of_;  // by buffer; −1 on a device that is not the first of its class
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_MEMORY_ORDER_H_
