// The stages of Load, and the steps; the logical reads and writes are in loaded_access.cc.
#include "cpu/load/loaded.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cpu/alignment.h"
#include "cpu/load/arena.h"
#include "cpu/ops/prepare.h"
#include "cpu/status.h"
#include "program/meetings.h"

namespace colonnade::cpu {

using program::Buffer;
using program::BufferId;
using program::BufferUse;
using program::Lane;
using program::Program;
using program::Task;
using program::TaskId;

namespace {

constexpr int64_t kStepsAhead = 3;  // whose commands a queue has room for
constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

std::vector<BufferId> UsedBuffers(const Task& task) {
  std::vector<BufferId> buffers;
  for (const BufferUse& use : task.uses) buffers.push_back(use.buffer);
  return buffers;
}

}  // namespace

CpuProgram::CpuProgram(Resources& resources, const Program& program, const engine::HostSlot* slots)
    : LoadedProgram(program),
      resources_(resources),
      slots_(slots),
      memory_(program, resources.books),
      tasks_(program.tasks.size()),
      progress_(program) {
  for (LoadedTask& task : tasks_) {
    task.launched_step = kNever;
    for (int slot = 0; slot < 2; ++slot) task.start[slot] = task.end[slot] = origin_;
  }
}

absl::StatusOr<std::unique_ptr<CpuProgram>> CpuProgram::Prepare(Resources& resources, const Program& program,
                                                                const engine::HostSlot* slots) {
  RETURN_IF_ERROR(engine::CheckDeviceCount(program, static_cast<int>(resources.devices.size())));
  const bool is_single = program.dtype == program::DType::kF32 || program.dtype == program::DType::kBF16;
  if (!is_single && resources.kernels != CpuOptions::Kernels::kReference) {
    return absl::InvalidArgumentError(absl::StrCat("the oneDNN kernels compute in f32 or bf16, not in ",
                                                   program::Name(program.dtype), "; use the reference kernels"));
  }
  RETURN_IF_ERROR(resources.books.CheckPersistentTensors(program));
  auto loaded = std::unique_ptr<CpuProgram>(new CpuProgram(resources, program, slots));
  if (absl::Status status = loaded->ChooseAllLayouts(); !status.ok()) return WithContext(status, "layouts");
  loaded->memory_.Place(loaded->layouts_.root_bytes, loaded->layouts_.buckets, kAlignmentBytes);
  RETURN_IF_ERROR(loaded->PrepareComputeTasks());
  RETURN_IF_ERROR(loaded->PrepareTransfers());
  for (const Task& task : program.tasks) {
    loaded->memory_.WantWorkspace(task.device, static_cast<int>(task.lane),
                                  loaded->tasks_[task.id.value].kernel->workspace_bytes());
  }
  return loaded;
}

absl::StatusOr<std::vector<engine::DeviceMemory>> CpuProgram::MemoryOf(Resources& resources, const Program& program) {
  const engine::HostSlot slot = engine::SlotWithoutMemory(program), slots[2] = {slot, slot};
  ASSIGN_OR_RETURN(std::unique_ptr<CpuProgram> prepared, Prepare(resources, program, slots));
  return prepared->memory_.OfDevices();
}

absl::StatusOr<std::unique_ptr<CpuProgram>> CpuProgram::Load(Resources& resources, const Program& program,
                                                             const engine::HostSlot (&slots)[2]) {
  ASSIGN_OR_RETURN(std::unique_ptr<CpuProgram> loaded, Prepare(resources, program, slots));
  for (const auto& device : resources.devices) device->Drain();
  RETURN_IF_ERROR(loaded->memory_.Take());
  loaded->memory_.OnMove([program = loaded.get()](const absl::Status& room) { program->MoveTo(room); });
  loaded->NoteLayouts();
  loaded->BindTasks();
  loaded->ReserveQueues();
  return loaded;
}

absl::Status CpuProgram::ChooseAllLayouts() {
  const KnownLayouts known = [this](int device, const std::string& name) -> std::optional<OpaqueDesc> {
    const auto& layouts = resources_.devices[device]->persistent_layouts;
    const auto found = layouts.find(name);
    return found == layouts.end() ? std::nullopt : std::optional(found->second);
  };
  absl::Status status;
  resources_.devices[0]->lane(Lane::kCompute).queue->Call([&] {
    status = CatchErrors([&]() -> absl::Status {
      ASSIGN_OR_RETURN(layouts_, cpu::ChooseLayouts(program_, resources_.kernels, known, resources_.engine));
      return absl::OkStatus();
    });
  });
  return status;
}

TaskContext CpuProgram::ContextOf(const Task& task) {
  const Device::LaneState& lane = resources_.devices[task.device]->lane(task.lane);
  TaskContext context{.program = program_,
                      .task = task,
                      .operands = {},
                      .threads = lane.threads,
                      .winograd = resources_.kernels == CpuOptions::Kernels::kWinograd,
                      .engine = resources_.engine,
                      .stream = lane.stream,
                      .slots = slots_,
                      .added_reorders = &added_reorders_};
  for (const BufferUse& use : task.uses) {
    context.operands.push_back(
        {layouts_.ViewOf(program_, use), use.buffer, use.access, engine::MembersOf(program_, layouts_.buckets, use)});
  }
  return context;
}

PreparedKernel CpuProgram::PrepareTask(const Task& task, const program::Op& op) {
  PreparedKernel kernel = CatchErrors(
      [&] { return PrepareCompute(op, ContextOf(task), resources_.kernels == CpuOptions::Kernels::kReference); });
  if (!kernel.ok()) return InTask(kernel.status(), task);
  return kernel;
}

// Each kernel is prepared on the thread that will run it.
absl::Status CpuProgram::PrepareComputeTasks() {
  std::vector<std::array<std::vector<const Task*>, program::kLaneCount>> of_lanes(program_.device_count);
  for (const Task& task : program_.tasks) {
    if (!std::holds_alternative<program::Compute>(task.body)) continue;
    of_lanes[task.device][static_cast<int>(task.lane)].push_back(&task);
  }
  for (int d = 0; d < program_.device_count; ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      if (of_lanes[d][l].empty()) continue;
      absl::Status status;
      resources_.devices[d]->lanes[l].queue->Call([&] { status = PrepareComputeTasks(of_lanes[d][l]); });
      RETURN_IF_ERROR(status);
    }
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::PrepareComputeTasks(const std::vector<const Task*>& of_lane) {
  for (const Task* task : of_lane) {
    const program::Op& op = std::get<program::Compute>(task->body).op;
    LoadedTask& ready = tasks_[task->id.value];
    if (program::UsesSlots(program_, *task)) {
      ASSIGN_OR_RETURN(ready.odd_kernel, PrepareTask(*task, op));
      std::erase_if(added_reorders_, [&](const engine::AddedReorder& added) { return added.task == task->id; });
    }
    ASSIGN_OR_RETURN(ready.kernel, PrepareTask(*task, op));
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::PrepareTransfers() {
  for (const program::Meeting& meeting : program::Meetings(program_).all()) {
    const std::vector<TaskId> sides = meeting.is_collective ? program::ByMember(program_, meeting.sides) : meeting.sides;
    std::vector<TaskContext> contexts;
    for (TaskId side : sides) contexts.push_back(ContextOf(program_.task(side)));
    absl::StatusOr<PreparedTransfer> transfer =
        meeting.is_collective ? PrepareCollective(contexts) : PrepareExchange(contexts);
    if (!transfer.ok()) return InTask(transfer.status(), program_.task(sides[0]));
    for (size_t m = 0; m < sides.size(); ++m) tasks_[sides[m].value].kernel = std::move(transfer->kernels[m]);
    rendezvous_.push_back(transfer->rendezvous);
  }
  return absl::OkStatus();
}

// For Programs that are loaded later and share them.
void CpuProgram::NoteLayouts() {
  for (const Buffer& buffer : program_.buffers) {
    if (!engine::IsPersistentTensor(buffer)) continue;
    resources_.devices[buffer.device]->persistent_layouts.try_emplace(buffer.name, layouts_.views[buffer.id.value].desc);
  }
}

void CpuProgram::BindTasks() {
  for (const Task& task : program_.tasks) {
    LoadedTask& ready = tasks_[task.id.value];
    const auto bind = [&](int slot, Kernel& kernel, Announcer& announcer) {
      std::vector<char*> data;
      for (BufferId buffer : UsedBuffers(task)) data.push_back(memory_.BaseOf(buffer, slot));
      kernel.Bind(data, memory_.workspace(task.device, static_cast<int>(task.lane)));
      if (kThreadSanitizer) announcer = Announcer(ContextOf(task).operands, data);
    };
    bind(0, *ready.kernel, ready.announcer);
    if (ready.odd_kernel != nullptr) bind(1, *ready.odd_kernel, ready.odd_announcer);
    ready.zeroed.clear();
    for (const engine::ByteRange& range : engine::PaddingBehind(program_, layouts_.buckets, task)) {
      ready.zeroed.push_back({memory_.BaseOf(range.bucket) + range.begin, range.bytes});
    }
  }
}

// Areas have moved, with nothing in flight.
void CpuProgram::MoveTo(const absl::Status& room) {
  absl::Status moved = room;
  if (room.ok()) {
    moved = CatchErrors([&] {
      BindTasks();
      return absl::OkStatus();
    });
  }
  if (!moved.ok()) Fail(moved);
}

// Adds to each lane's commands `times` those of one step of this Program.
void CpuProgram::CountCommands(int64_t times) {
  for (const Task& task : program_.tasks) {
    Device::LaneState& lane = resources_.devices[task.device]->lane(task.lane);
    lane.reserved_commands += times * static_cast<int64_t>(1 + task.waits.size() + task.waits_previous.size());
  }
  for (const auto& device : resources_.devices) {
    for (Device::LaneState& lane : device->lanes) lane.reserved_commands += times;  // fences
  }
}

void CpuProgram::ReserveQueues() {
  has_reserved_ = true;
  CountCommands(kStepsAhead);
  for (const auto& device : resources_.devices) {
    for (Device::LaneState& lane : device->lanes) lane.queue->Reserve(lane.reserved_commands + 16);
  }
}

// All commands for this Program are behind us.
CpuProgram::~CpuProgram() {
  for (const auto& device : resources_.devices) device->Drain();
  if (has_reserved_) CountCommands(-kStepsAhead);
}

void CpuProgram::Fence() {
  if (!memory_.TakeTurn()) return;
  for (int d = 0; d < program_.device_count; ++d) resources_.devices[d]->Fence();
}

void CpuProgram::Launch(TaskId task, int64_t step) {
  if (!any_launched_) first_step_ = step;
  any_launched_ = true;
  tasks_[task.value].launched_step = step;
  const Task& what = program_.task(task);
  resources_.devices[what.device]->lane(what.lane).queue->Push(
      {.kind = Command::Kind::kRunTask, .handler = this, .task = task.value, .step = step});
}

void CpuProgram::Await(int device, Lane lane, TaskId task, int64_t step) {
  if (!any_launched_ || step < first_step_) return;
  resources_.devices[device]->lane(lane).queue->Push(
      {.kind = Command::Kind::kWaitForTask, .handler = this, .task = task.value, .step = step});
}

void CpuProgram::WaitForTask(int32_t task, int64_t step) { progress_.WaitFor(task, step); }

void CpuProgram::RunTask(int32_t task, int64_t step) {
  LoadedTask& ready = tasks_[task];
  ready.start[step % 2] = Clock::now();
  if (!failed_.load(std::memory_order_acquire)) {
    const bool odd = step % 2 == 1 && ready.odd_kernel != nullptr;
    Kernel& kernel = odd ? *ready.odd_kernel : *ready.kernel;
    const Announcer& announcer = odd ? ready.odd_announcer : ready.announcer;
    announcer.Announce();
    const absl::Status status = CatchErrors([&] { return kernel.Run(step); });
    for (const Padding& range : ready.zeroed) std::fill(range.begin, range.begin + range.bytes, 0);
    announcer.Announce();
    if (!status.ok()) Fail(InTask(status, program_.tasks[task]));
  }
  ready.end[step % 2] = Clock::now();
  progress_.SetEnded(task, step);
}

void CpuProgram::Fail(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(status_mutex_);
    if (status_.ok()) status_ = status;
  }
  failed_.store(true, std::memory_order_release);
  for (const auto& rendezvous : rendezvous_) rendezvous->Break();
}

absl::Status CpuProgram::Synchronize(int64_t step) {
  // The last first: the host sleeps until a lane is through, not from task to task.
  for (int32_t task = static_cast<int32_t>(tasks_.size()) - 1; task >= 0; --task) {
    if (tasks_[task].launched_step == kNever) continue;
    progress_.WaitFor(task, std::min(step, tasks_[task].launched_step));
  }
  std::lock_guard<std::mutex> lock(status_mutex_);
  return status_;
}

std::vector<engine::TaskTime> CpuProgram::Times(int64_t step) const {
  std::vector<engine::TaskTime> times;
  for (const LoadedTask& task : tasks_) {
    times.push_back({absl::FromChrono(task.start[step % 2] - origin_), absl::FromChrono(task.end[step % 2] - origin_)});
  }
  return times;
}

}  // namespace colonnade::cpu
