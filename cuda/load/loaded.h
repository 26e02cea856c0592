// One Program made ready on the devices, and its steps.
//
// Load runs in stages: layouts, placement, calls without memory (which tells how much workspace they want), memory, calls.
// What is launched goes through host-side queues (queue.h) to streams; each task that another lane waits for records an
// event, one for even and one for odd steps. The first call that fails poisons the Program: nothing more is enqueued, and
// Synchronize returns the error. Thread rule: that of engine::LoadedProgram.
#ifndef COLONNADE_CUDA_LOADED_H_
#define COLONNADE_CUDA_LOADED_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/device.h"
#include "cuda/load/host_staging.h"
#include "cuda/load/layout.h"
#include "cuda/load/queue.h"
#include "cuda/load/step_events.h"
#include "cuda/load/step_graphs.h"
#include "cuda/task_context.h"
#include "engine/backend.h"
#include "engine/loading.h"
#include "program/program.h"

namespace colonnade::cuda {

class CudaProgram : public engine::LoadedProgram, private Issuer {
 public:
  // `resources`, `program` and `slots` must outlive the result.
  static absl::StatusOr<std::unique_ptr<CudaProgram>> Load(Resources& resources, const program::Program& program,
                                                           const engine::HostSlot (&slots)[2]);
  // Returns the bytes that Load would take, on each device; nothing is taken.
  static absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(Resources& resources, const program::Program& program);
  ~CudaProgram() override;

  void Fence() override;
  void LaunchInParts(int64_t step) override { step_in_parts_ = step; }
  void Launch(program::TaskId task, int64_t step) override;
  void Await(int device, program::Lane lane, program::TaskId task, int64_t step) override;
  absl::Status Synchronize(int64_t step) override;
  std::vector<engine::TaskTime> Times(int64_t step) const override;
  absl::Status ReadBytes(program::BufferId buffer, absl::Span<char> bytes) const override;
  absl::Status WriteBytes(program::BufferId buffer, absl::Span<const char> bytes) override;
  absl::Status KeepImages() override;
  engine::DeviceMemory Memory(int device) const override { return memory_.of(device); }
  const std::vector<engine::AddedReorder>& added_reorders() const override { return added_reorders_; }
  std::vector<std::string> Notes() const override { return notes_; }
  // NCCL promises no order of its sums.
  bool GivesEqualBits() const override { return EnginesGiveEqualBits() && !sums_by_nccl_; }

 private:
  // Devices that hold the same parameters without reducing their gradients must compute the same bits.
  bool EnginesGiveEqualBits() const { return resources_.deterministic || program_.device_count > 1; }
  // A task's phases; between them, before the first and after the last, the members of a meeting wait for each other. A
  // compute task has one phase and waits for nobody.
  struct LoadedTask {
    std::vector<std::vector<Call>> phases;
    std::vector<Call> odd_calls;  // instead of phase 0 in odd steps, where there are any
    int64_t workspace_bytes = 0;
    bool meets = true;     // MemberCalls::meets
    bool is_kept = false;  // a load that KeepImages leaves out
    std::string range;     // its name in profilers
  };
  CudaProgram(Resources& resources, const program::Program& program, const engine::HostSlot* slots);
  static absl::StatusOr<std::unique_ptr<CudaProgram>> Prepare(Resources& resources, const program::Program& program,
                                                              const engine::HostSlot* slots);

  // Stages of Load, in order.
  absl::Status PrepareTasks();
  absl::Status PrepareComputeTask(const program::Task& task, const program::Op& op);
  absl::Status MakeCommunicators();
  absl::Status PrepareMeeting(absl::Span<const program::TaskId> sides);
  TaskContext ContextOf(const program::Task& task, int parity);  // in even or odd steps
  void CountWorkspaces();
  absl::Status MakeEvents();
  void MoveTo(const absl::Status& room);

  // Issuer.
  void IssueTask(program::TaskId task, int64_t step) override;
  void IssueMeeting(absl::Span<const program::TaskId> sides, int64_t step) override;
  void IssueWait(int device, program::Lane lane, program::TaskId task, int64_t step) override;

  absl::Status Begin(const program::Task& task, int64_t step);
  absl::Status Run(const program::Task& task, size_t phase, int64_t step);
  absl::Status End(const program::Task& task, int64_t step);
  absl::Status RunMeeting(absl::Span<const program::TaskId> sides, int64_t step);
  absl::Status RunAll(absl::Span<const program::TaskId> sides, size_t phase, int64_t step);
  absl::Status MeetAll(absl::Span<const program::TaskId> sides, const std::vector<Event>& events);
  void FailUnlessOk(const absl::Status& status);

  struct HostCommand {
    program::TaskId task;
    int device = 0;
    program::Lane lane = program::Lane::kCompute;
    int64_t step = 0;
    bool is_wait = false;
  };
  void StartStep(int64_t step);
  void IssueAwait(const HostCommand& wait);
  void Issue(const HostCommand& launched);
  void EndStep();
  void GiveUpCapture();
  absl::Status LaunchGraph();

  absl::Status FreeSlots(int parity);
  absl::Status BeginStep(int64_t step);
  absl::Status TakeOrigins(int64_t step);
  // After an error: waits for all that was enqueued before it.
  void Drain();

  const Stream& StreamOf(const program::Task& task) const { return resources_.devices[task.device].stream(task.lane); }
  // The range of memory that holds an operand's elements, of which this device has bytes [begin, end).
  struct MemoryRange;
  absl::StatusOr<MemoryRange> RangeOf(program::BufferId buffer, size_t bytes) const;
  absl::Status CopyNow(int device, const Stream& stream, const CopyBytes& copy) const;

  Resources& resources_;
  HostStaging staging_;
  Layouts layouts_;
  engine::ProgramMemory memory_;  // workspaces by lane
  Queues queues_;
  std::vector<LoadedTask> tasks_;
  EventPool pool_;
  StepEvents events_;
  StepGraphs graphs_;
  bool nccl_sums_ = false, sums_by_nccl_ = false;  // whether NCCL may sum, and whether it does
  bool lacks_nccl_ = false;                        // whether there is a collective that it would have served
  std::vector<int> communicators_;                 // of NCCL, by group of the Program; −1: none, or not made yet
  std::vector<engine::AddedReorder> added_reorders_;

  bool any_launched_ = false, drained_ = false, keeps_images_ = false;
  int64_t steps_in_turn_ = 0;   // since another Program may have written to step memory
  int64_t step_in_parts_ = -1;  // the last such step

  bool graphs_on_ = false;
  StepMode mode_ = StepMode::kEager;      // of the last step
  bool after_graph_ = false;              // the step before the last was a graph
  size_t launched_in_step_ = 0;           // tasks of the last step
  std::vector<HostCommand> early_waits_;  // of a step whose number the first of its tasks will tell
  std::vector<HostCommand> captured_;     // of a step that is being captured: what to do should that fail
  absl::Status capture_status_;
  std::vector<std::string> notes_;
  std::array<bool, 2> is_graph_ = {false, false};  // the last step of the parity
  int64_t first_step_ = 0, last_step_ = 0;
  absl::Status status_;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LOADED_H_
