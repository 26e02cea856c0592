// Which roots of a device are never in use at the same time, by lane order and waits alone. Internal to program/.
//
// Immutable after construction; threads may share it.
#ifndef COLONNADE_PROGRAM_MEMORY_ORDER_H_
#define COLONNADE_PROGRAM_MEMORY_ORDER_H_

#include <array>
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

 private:
  // All uses of a root.
  struct Span {
    std::array<int64_t, kLaneCount> last_position;    // of each lane's last use, in its step; very small where it has none
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
