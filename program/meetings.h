// The tasks that start together and end together, found once: the two sides of each message, the members of each instance
// of a collective. Both are called a meeting, and its tasks the sides.
//
// A value; threads may share it. It keeps nothing of the Program.
#ifndef COLONNADE_PROGRAM_MEETINGS_H_
#define COLONNADE_PROGRAM_MEETINGS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "program/program.h"

namespace colonnade::program {

struct Meeting {
  bool is_collective = false;  // else an exchange
  int32_t number = 0;          // the message of an exchange, the instance of a collective
  std::vector<TaskId> sides;   // in the order of the sequence
};

class Meetings {
 public:
  // REQUIRES: tasks[i].id is i. Nothing else of the Program need be sound, so that Verify may ask, too.
  explicit Meetings(const Program& program);

  // In the order in which their first sides stand in the sequence.
  const std::vector<Meeting>& all() const& { return all_; }
  std::vector<Meeting> all() && { return std::move(all_); }  // so that a loop over Meetings(program).all() keeps them
  // Returns the index in all() of the meeting of `task`; −1 for a computation, which meets nobody.
  int IndexOf(TaskId task) const { return index_[task.value]; }
  // Returns the tasks that start and end with `task`, itself included; itself alone for a computation.
  absl::Span<const TaskId> SidesOf(TaskId task) const;

 private:
  std::vector<Meeting> all_;
  std::vector<int> index_;     // by task
  std::vector<TaskId> alone_;  // by task: its own id
};

// Returns the sides of a collective by member: tasks[m] is that of the m-th device of the group. Of two sides on one device
// the first counts; a member without a side has an invalid id.
std::vector<TaskId> ByMember(const Program& program, absl::Span<const TaskId> sides);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_MEETINGS_H_
