// One Program made ready on the virtual devices, and its steps.
//
// Load runs in stages: layouts, placement, kernels, memory, binding (loaded.cc). The first task that fails poisons the
// Program: what comes after it is skipped, transfers are broken off, and Synchronize returns the error.
// Thread rule: that of engine::LoadedProgram; RunTask and WaitForTask are called by the lanes.
#ifndef COLONNADE_CPU_LOADED_H_
#define COLONNADE_CPU_LOADED_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cpu/device.h"
#include "cpu/load/layout.h"
#include "cpu/ops/collective.h"
#include "cpu/task_context.h"
#include "cpu/threads/announce.h"
#include "cpu/threads/queue.h"
#include "engine/backend.h"
#include "engine/loading.h"
#include "program/program.h"

namespace colonnade::cpu {

class CpuProgram : public engine::LoadedProgram, private CommandHandler {
 public:
  // `resources`, `program` and `slots` must outlive the result.
  static absl::StatusOr<std::unique_ptr<CpuProgram>> Load(Resources& resources, const program::Program& program,
                                                          const engine::HostSlot (&slots)[2]);
  // Returns the bytes that Load would take, on each device; nothing is taken.
  static absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(Resources& resources, const program::Program& program);
  ~CpuProgram() override;

  void Fence() override;
  void Launch(program::TaskId task, int64_t step) override;
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step) override;
  absl::Status Synchronize(int64_t step) override;
  std::vector<engine::TaskTime> Times(int64_t step) const override;
  absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const override;
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override;
  engine::DeviceMemory Memory(int device) const override { return memory_.of(device); }
  const std::vector<engine::AddedReorder>& added_reorders() const override { return added_reorders_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Padding {
    char* begin;
    int64_t bytes;
  };
  // What a lane needs of one task.
  struct LoadedTask {
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<Kernel> odd_kernel;  // in odd steps, of a task that uses a buffer of two slots
    Announcer announcer, odd_announcer;
    std::vector<Padding> zeroed;         // padding behind the members of buckets that it writes
    Clock::time_point start[2], end[2];  // by step % 2
    int64_t launched_step;               // the last; touched by the host thread only
  };
  // Where a member of a bucket lies, and which of its bytes this device holds.
  struct HeldMember {
    View view;               // with offset 0: in a copy of the member alone
    int64_t bytes = 0;       // of that copy
    engine::HeldBytes held;  // of that copy
    char* data = nullptr;    // where byte held.begin is
  };

  CpuProgram(Resources& resources, const program::Program& program, const engine::HostSlot* slots);

  // Layouts, kernels and sizes; no memory.
  static absl::StatusOr<std::unique_ptr<CpuProgram>> Prepare(Resources& resources, const program::Program& program,
                                                             const engine::HostSlot* slots);

  // Stages of Load, in order.
  absl::Status ChooseAllLayouts();
  TaskContext ContextOf(const program::Task& task);
  PreparedKernel PrepareTask(const program::Task& task, const program::Op& op);
  absl::Status PrepareComputeTasks();
  absl::Status PrepareComputeTasks(const std::vector<const program::Task*>& of_lane);  // on its thread
  absl::Status PrepareTransfers();
  void NoteLayouts();
  void BindTasks();
  void MoveTo(const absl::Status& room);
  void CountCommands(int64_t times);
  void ReserveQueues();

  HeldMember Held(program::BufferId buffer) const;
  absl::Status ReadHeld(program::BufferId buffer, absl::Span<char> bytes) const;

  void RunTask(int32_t task, int64_t step) override;
  void WaitForTask(int32_t task, int64_t step) override;
  void Fail(const absl::Status& status);

  Resources& resources_;
  const engine::HostSlot* slots_;
  Layouts layouts_;
  engine::ProgramMemory memory_;  // workspaces by lane
  std::vector<LoadedTask> tasks_;
  std::vector<std::shared_ptr<Rendezvous>> rendezvous_;
  std::vector<engine::AddedReorder> added_reorders_;

  Progress progress_;
  const Clock::time_point origin_ = Clock::now();
  bool any_launched_ = false;
  int64_t first_step_ = 0;
  bool has_reserved_ = false;
  std::atomic<bool> failed_ = false;
  std::mutex status_mutex_;
  absl::Status status_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LOADED_H_
