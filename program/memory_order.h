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
  explicit MemoryOrder(const Program& program);

  bool Used(BufferId root) const { return spans_[root.value].used; }

  // True if each step has ended all uses of one before it starts any use of the other, and the other's before the next step
  // starts those of the first. O(lanes²).
  bool Apart(BufferId a, BufferId b) const { return !Clash(a, b) || !Clash(b, a); }

  // Two tasks that keep `a` from being `b`'s predecessor in memory: the first uses one root and is not known to have ended
  // when the second, which uses the other, starts. Empty if there are none.
  std::optional<std::pair<TaskId, TaskId>> Clash(BufferId a, BufferId b) const;

 private:
  // The first and last task of each lane that use a root; invalid ids where a lane has none.
  struct Span {
    std::array<TaskId, kLaneCount> first, last;
    bool used = false;
  };

  HappensBefore order_;
  std::vector<Span> spans_;  // by buffer; set for roots alone
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_MEMORY_ORDER_H_
