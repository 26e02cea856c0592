// Host-side queues that issue work in an order in which every event is recorded before a stream waits for it.
//
// Lanes are queues of commands. A wait is handed on once the task that it is for has been; a meeting of several lanes (an
// exchange, a collective) once it is at the head of all of them, for all at once. After all commands of a step everything
// has been handed on, since a Program's meetings come in one order on all lanes (program/verify.h). Thread rule: one host
// thread. Nothing is allocated in Launch, Await and what they call once queues have reached their length.
#ifndef COLONNADE_CUDA_QUEUE_H_
#define COLONNADE_CUDA_QUEUE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "program/meetings.h"
#include "program/program.h"

namespace colonnade::cuda {

// What commands are handed to.
class Issuer {
 public:
  virtual ~Issuer() = default;
  virtual void IssueTask(program::TaskId task, int64_t step) = 0;
  virtual void IssueMeeting(absl::Span<const program::TaskId> sides, int64_t step) = 0;
  virtual void IssueWait(int device, program::Lane lane, program::TaskId task, int64_t step) = 0;
};

class Queues {
 public:
  // Both must outlive the result.
  Queues(const program::Program& program, Issuer& issuer);

  void Launch(program::TaskId task, int64_t step);
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step);

  // Forgets all that was launched of `step`, the last one.
  void Rewind(int64_t step);

  // Commands that have not been handed on.
  int64_t held() const { return held_; }
  // Returns the tasks that meet with `task`, itself included, in the order of the sequence; itself alone for a compute task.
  absl::Span<const program::TaskId> SidesOf(program::TaskId task) const { return meetings_.SidesOf(task); }

 private:
  struct Command {
    program::TaskId task;
    int64_t step = 0;
    bool is_wait = false;
  };
  std::deque<Command>& QueueOf(int device, program::Lane lane) {
    return queues_[device * program::kLaneCount + static_cast<int>(lane)];
  }
  void Push(int device, program::Lane lane, const Command& command);
  void Advance();
  // Hands on the heads of queue `q` as far as that goes; true if any.
  bool AdvanceQueue(size_t q);
  bool IsAtHead(program::TaskId task, int64_t step);
  void PopHead(size_t q);
  void SetIssued(program::TaskId task, int64_t step) { issued_step_[task.value] = step; }

  const program::Program& program_;
  Issuer& issuer_;
  std::vector<std::deque<Command>> queues_;  // by device, then lane
  program::Meetings meetings_;
  std::vector<int64_t> issued_step_;  // by task, the last
  int64_t held_ = 0;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_QUEUE_H_
