#include "cpu/threads/queue.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cpu/threads/rendezvous.h"
#include "fixture.h"
#include "gtest/gtest.h"
#include "program/builder.h"

namespace colonnade::cpu {
namespace {

// Notes what it was called with; waits are passed to a Progress. A task takes `duration`.
class Recorder : public CommandHandler {
 public:
  explicit Recorder(Progress* progress = nullptr, std::chrono::microseconds duration = {})
      : progress_(progress), duration_(duration) {}
  void RunTask(int32_t task, int64_t step) override {
    others_ended.push_back(other == nullptr ? 0 : other->ended.load());
    std::this_thread::sleep_for(duration_);
    ran.push_back(task);
    ++ended;
    if (progress_ != nullptr) progress_->SetEnded(task, step);
  }
  void WaitForTask(int32_t task, int64_t step) override { progress_->WaitFor(task, step); }

  std::vector<int> ran;
  std::atomic<int64_t> ended = 0;
  const Recorder* other = nullptr;    // on another lane
  std::vector<int64_t> others_ended;  // by task that ran: how many of the other's had ended before

 private:
  Progress* progress_;
  std::chrono::microseconds duration_;
};

TEST(Queue, RunsCommandsInOrderThroughARingSmallerThanTheirNumber) {
  Recorder recorder;
  {
    Queue queue([] {});
    for (int i = 0; i < 1000; ++i) {
      if (i == 300) queue.Reserve(64);
      queue.Push({.handler = &recorder, .task = i});
    }
  }
  ASSERT_EQ(recorder.ran.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(recorder.ran[i], i);
}

TEST(Queue, CallRunsOnTheLaneAfterWhatWasPushed) {
  Recorder recorder;
  std::thread::id at_start;
  Queue queue([&] { at_start = std::this_thread::get_id(); });
  queue.Push({.handler = &recorder, .task = 3});
  size_t ran = 0;
  std::thread::id at_call;
  queue.Call([&] {
    ran = recorder.ran.size();
    at_call = std::this_thread::get_id();
  });
  EXPECT_EQ(ran, 1u);
  EXPECT_EQ(at_call, at_start);
  EXPECT_NE(at_call, std::this_thread::get_id());
}

TEST(Progress, AWaitOnOneLaneEndsWhenTheTaskOfAnotherHas) {
  program::Builder builder = MakeBuilder(1);
  const program::BufferId x = builder.AddBuffer(0, "x", program::DType::kF32, {1}),
                          y = builder.AddBuffer(0, "y", program::DType::kF32, {1});
  for (program::Lane lane : {program::Lane::kCompute, program::Lane::kComm}) {
    builder.AddCompute(0, lane, program::Copy{}, {builder.Read(x), builder.Write(y)}, {}, {});
  }
  const program::Program program = std::move(builder).Build();
  Progress progress(program);
  Recorder first(&progress, std::chrono::microseconds(200)), second(&progress);
  second.other = &first;
  {
    Queue compute([] {}), comm([] {});
    for (int64_t step = 0; step < 50; ++step) {
      comm.Push({.kind = Command::Kind::kWaitForTask, .handler = &second, .task = 0, .step = step});
      comm.Push({.handler = &second, .task = 1, .step = step});
      compute.Push({.handler = &first, .task = 0, .step = step});
      compute.Push({.kind = Command::Kind::kWaitForTask, .handler = &first, .task = 1, .step = step});
    }
    progress.WaitFor(1, 49);
  }
  EXPECT_EQ(first.ran.size(), 50u);
  ASSERT_EQ(second.ran.size(), 50u);
  for (int64_t step = 0; step < 50; ++step) EXPECT_GT(second.others_ended[step], step) << "did not wait in step " << step;
}

TEST(Rendezvous, AllMeetAgainAndAgain) {
  Rendezvous rendezvous(3);
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        ++arrived;
        ASSERT_TRUE(rendezvous.Meet());
        ASSERT_GE(arrived.load(), 3 * (round + 1));
        rendezvous.Part();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What a member holds is given to the next Program once it has parted, also where another task of this one has failed.
TEST(Rendezvous, NobodyPartsWhileAnotherMovesEvenWhereItIsBroken) {
  Rendezvous rendezvous(2);
  std::atomic<bool> has_moved = false, is_moving = false;
  std::thread slow([&] {
    ASSERT_TRUE(rendezvous.Meet());
    is_moving = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    has_moved = true;
    rendezvous.Part();
  });
  ASSERT_TRUE(rendezvous.Meet());
  while (!is_moving) std::this_thread::yield();
  rendezvous.Break();
  rendezvous.Part();
  EXPECT_TRUE(has_moved);
  slow.join();
  EXPECT_FALSE(rendezvous.Meet());
}

TEST(Rendezvous, BreakFreesThoseWhoWaitAndThoseWhoCome) {
  Rendezvous rendezvous(2);
  std::thread waiter([&] { EXPECT_FALSE(rendezvous.Meet()); });
  rendezvous.Break();
  waiter.join();
  EXPECT_FALSE(rendezvous.Meet());
}

}  // namespace
}  // namespace colonnade::cpu
