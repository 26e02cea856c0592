// Lanes of a virtual device, and the events between them.
//
// A Queue is one lane: a thread that runs commands in the order in which they were pushed. A Progress holds, for one loaded
// Program, which tasks have ended. Only std::mutex and std::condition_variable are used, which ThreadSanitizer knows.
// Push is called by one host thread; nothing is allocated between Reserve and the destructor.
#ifndef COLONNADE_CPU_QUEUE_H_
#define COLONNADE_CPU_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "program/program.h"

namespace colonnade::cpu {

// What a queue's commands are for: a loaded Program.
class CommandHandler {
 public:
  virtual ~CommandHandler() = default;
  virtual void RunTask(int32_t task, int64_t step) = 0;
  virtual void WaitForTask(int32_t task, int64_t step) = 0;
};

struct Command {
  enum class Kind { kRunTask, kWaitForTask };
  Kind kind = Kind::kRunTask;
  CommandHandler* handler = nullptr;
  int32_t task = 0;
  int64_t step = 0;
};

class Queue {
 public:
  // The thread calls `at_start` before anything else.
  explicit Queue(std::function<void()> at_start);
  ~Queue();  // runs what was pushed, then ends the thread
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Makes room for at least `commands` at a time.
  void Reserve(int64_t commands);
  // Appends a command; blocks while the queue is full.
  void Push(const Command& command);
  // Runs `body` on the lane's thread, after what was pushed before, and waits until it has returned.
  void Call(absl::FunctionRef<void()> body);

 private:
  void Serve();

  std::mutex mutex_;
  std::condition_variable filled_, drained_;
  std::vector<Command> ring_;
  size_t head_ = 0, size_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

// The last step that each task has ended, and a way to wait for it.
class Progress {
 public:
  explicit Progress(const program::Program& program);

  void SetEnded(int32_t task, int64_t step);
  // Blocks until `task` has ended `step`.
  void WaitFor(int32_t task, int64_t step);

 private:
  // Tasks of one lane of one device share a mutex.
  struct LaneEvents {
    std::mutex mutex;
    std::condition_variable ended;
  };
  std::vector<std::unique_ptr<LaneEvents>> lanes_;
  std::vector<LaneEvents*> lane_of_;  // by task
  std::vector<int64_t> ended_step_;   // by task, guarded by its lane's mutex
  std::vector<int> waiters_;          // likewise; a task that nobody waits for wakes nobody
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_QUEUE_H_
