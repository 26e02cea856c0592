#include "cpu/threads/queue.h"

#include <limits>
#include <utility>

namespace colonnade::cpu {

namespace {

// A function that is run as a command, and waited for.
class CallOnce : public CommandHandler {
 public:
  explicit CallOnce(absl::FunctionRef<void()> body) : body_(body) {}

  void RunTask(int32_t, int64_t) override {
    body_();
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    returned_.notify_one();  // under the lock: the waiter destroys this object
  }
  void WaitForTask(int32_t, int64_t) override {
    std::unique_lock<std::mutex> lock(mutex_);
    returned_.wait(lock, [this] { return done_; });
  }

 private:
  absl::FunctionRef<void()> body_;
  std::mutex mutex_;
  std::condition_variable returned_;
  bool done_ = false;
};

}  // namespace

Queue::Queue(std::function<void()> at_start) : ring_(16) {
  thread_ = std::thread([this, at_start = std::move(at_start)] {
    at_start();
    Serve();
  });
}

Queue::~Queue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void Queue::Reserve(int64_t commands) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<int64_t>(ring_.size()) >= commands) return;
  std::vector<Command> larger(commands);
  for (size_t i = 0; i < size_; ++i) larger[i] = ring_[(head_ + i) % ring_.size()];
  ring_ = std::move(larger);
  head_ = 0;
}

void Queue::Push(const Command& command) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    drained_.wait(lock, [this] { return size_ < ring_.size(); });
    ring_[(head_ + size_) % ring_.size()] = command;
    ++size_;
  }
  filled_.notify_one();
}

void Queue::Call(absl::FunctionRef<void()> body) {
  CallOnce call(body);
  Push({.handler = &call});
  call.WaitForTask(0, 0);
}

void Queue::Serve() {
  while (true) {
    Command command;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      filled_.wait(lock, [this] { return size_ > 0 || closed_; });
      if (size_ == 0) return;
      command = ring_[head_];
      head_ = (head_ + 1) % ring_.size();
      --size_;
    }
    drained_.notify_one();
    switch (command.kind) {
      case Command::Kind::kRunTask:
        command.handler->RunTask(command.task, command.step);
        break;
      case Command::Kind::kWaitForTask:
        command.handler->WaitForTask(command.task, command.step);
        break;
    }
  }
}

Progress::Progress(const program::Program& program)
    : ended_step_(program.tasks.size(), std::numeric_limits<int64_t>::min()), waiters_(program.tasks.size(), 0) {
  lanes_.resize(program.device_count * program::kLaneCount);
  for (auto& lane : lanes_) lane = std::make_unique<LaneEvents>();
  for (const program::Task& task : program.tasks) {
    lane_of_.push_back(lanes_[task.device * program::kLaneCount + static_cast<int>(task.lane)].get());
  }
}

void Progress::SetEnded(int32_t task, int64_t step) {
  LaneEvents& lane = *lane_of_[task];
  std::lock_guard<std::mutex> lock(lane.mutex);
  ended_step_[task] = step;
  if (waiters_[task] > 0) lane.ended.notify_all();
}

void Progress::WaitFor(int32_t task, int64_t step) {
  LaneEvents& lane = *lane_of_[task];
  std::unique_lock<std::mutex> lock(lane.mutex);
  if (ended_step_[task] >= step) return;
  ++waiters_[task];
  lane.ended.wait(lock, [&] { return ended_step_[task] >= step; });
  --waiters_[task];
}

}  // namespace colonnade::cpu
