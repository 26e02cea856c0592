// Dependencies between the tasks of one device, derived from their uses, and the order that lanes and waits enforce.
//
// Nobody writes a dependency by hand. The pass that adds waits (partition/lowering/assign_waits.cc) and Verify derive
// dependencies here; Verify and the placement of buffers in memory ask here what has ended. The simulator needs neither: it
// runs lanes, waits and meetings as they stand. The pass that adds waits keeps its own record of what has ended, since that
// changes as waits are added, while HappensBefore describes a finished Program. Tasks of different devices are ordered by
// meetings alone: the sides of an exchange and the members of a collective start together and end together.
#ifndef COLONNADE_PROGRAM_DAG_H_
#define COLONNADE_PROGRAM_DAG_H_

#include <array>
#include <cstdint>
#include <vector>

#include "program/device_classes.h"
#include "program/program.h"

namespace colonnade::program {

// The immediate predecessors of each task, by task index. An access must wait for the last writes that it overlaps, a write
// also for the reads since then. Predecessors that another predecessor's write covers are left out.
struct Dependencies {
  std::vector<std::vector<TaskId>> within;   // predecessors in the same step
  std::vector<std::vector<TaskId>> carried;  // predecessors in the step before
};
Dependencies DeriveDependencies(const Program& program);
// Derives them for the tasks of each class's first device alone; other tasks get none.
Dependencies DeriveDependencies(const Program& program, const DeviceClasses& classes);

// Whether two uses touch a common element, and one of them writes. A part and a member of the same bucket
// always meet, since the backend decides where a member lies.
bool Conflicts(const Program& program, const BufferUse& a, const BufferUse& b);

// Knows what is certain to have ended when a task starts, from lane order, waits and waits_previous alone.
//
// Steps are counted relative to the task's own: for the lanes of its device, `ended[lane]` is the number of tasks of that
// lane that have ended, counting those of this step from position 0 and those of the step before from −(tasks of the lane).
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program);
  // Knows it of the first device of each class alone.
  HappensBefore(const Program& program, const DeviceClasses& classes);

  // Whether `a` has ended before `b` starts, both of the same device and step.
  bool Within(TaskId a, TaskId b) const;
  // Whether `a` of the step before has ended before `b` starts.
  bool Carried(TaskId a, TaskId b) const;

 private:
  friend class MemoryOrder;
  std::vector<int> device_, lane_;
  std::vector<int64_t> position_;
  std::vector<std::array<int64_t, kLaneCount>> ended_;  // by task: exclusive position per lane, relative to its own step
  std::vector<std::array<int64_t, kLaneCount>> lane_sizes_;  // by device
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_DAG_H_
