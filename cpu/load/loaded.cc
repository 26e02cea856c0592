// The stages of Load, and the steps; the logical reads and writes are in loaded_access.cc.
#include "cpu/load/loaded.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "cpu/ops/prepare.h"
#include "cpu/status.h"
#include "program/status_macros.h"

namespace colonnade::cpu {

using program::Buffer;
using program::BufferId;
using program::BufferUse;
using program::Lane;
using program::Program;
using program::Task;
using program::TaskId;

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

bool IsRoot(const Buffer& buffer) {
  return std::holds_alternative<program::Root>(buffer.storage) || std::holds_alternative<program::Bucket>(buffer.storage);
}

// The buffers whose layouts a persistent root has: itself, or a bucket's members.
std::vector<BufferId> TensorsOf(const Buffer& buffer) {
  const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
  return bucket == nullptr ? std::vector<BufferId>{buffer.id} : bucket->members;
}

std::vector<BufferId> UsedBuffers(const Task& task) {
  std::vector<BufferId> buffers;
  for (const BufferUse& use : task.uses) buffers.push_back(use.buffer);
  return buffers;
}

}  // namespace

CpuProgram::CpuProgram(Resources& resources, const Program& program, const engine::HostSlot* slots)
    : resources_(resources), program_(program), slots_(slots), tasks_(program.tasks.size()), progress_(program) {
  for (ReadyTask& task : tasks_) task.launched_step = kNever;
}

absl::StatusOr<std::unique_ptr<CpuProgram>> CpuProgram::Prepare(Resources& resources, const Program& program,
                                                                const engine::HostSlot* slots) {
  const int devices = static_cast<int>(resources.devices.size());
  if (program.device_count > devices) {
    return absl::InvalidArgumentError(absl::StrCat("the Program is for ", program.device_count, " devices, the backend has ",
                                                   devices, "; make it with as many"));
  }
  if (program.dtype != program::DType::kF32 && !resources.reference_kernels) {
    return absl::InvalidArgumentError(absl::StrCat("the oneDNN kernels compute in f32, not in ",
                                                   program::Name(program.dtype), "; use the reference kernels"));
  }
  auto loaded = std::unique_ptr<CpuProgram>(new CpuProgram(resources, program, slots));
  if (absl::Status status = loaded->ChooseAllLayouts(); !status.ok()) return WithContext(status, "layouts");
  loaded->placement_ = program::PlaceBuffers(
      program, [&](const Buffer& buffer) { return loaded->layouts_.root_bytes[buffer.id.value]; }, kAlignment);
  RETURN_IF_ERROR(loaded->PrepareComputeTasks());
  RETURN_IF_ERROR(loaded->PrepareTransfers());
  loaded->CountMemory();
  return loaded;
}

absl::StatusOr<std::vector<engine::DeviceMemory>> CpuProgram::MemoryOf(Resources& resources, const Program& program) {
  engine::HostSlot slots[2];
  for (engine::HostSlot& slot : slots) {
    slot.inputs.resize(program.inputs.size());
    for (const program::Output& output : program.outputs) slot.outputs.emplace_back(output.pieces.size());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<CpuProgram> prepared, Prepare(resources, program, slots));
  return prepared->memory_;
}

absl::StatusOr<std::unique_ptr<CpuProgram>> CpuProgram::Load(Resources& resources, const Program& program,
                                                             const engine::HostSlot (&slots)[2]) {
  ASSIGN_OR_RETURN(std::unique_ptr<CpuProgram> prepared, Prepare(resources, program, slots));
  std::unique_ptr<CpuProgram> loaded = std::move(prepared);
  RETURN_IF_ERROR(loaded->CheckLimit());
  RETURN_IF_ERROR(loaded->TakeMemory());
  loaded->BindTasks();
  loaded->ReserveQueues();
  return loaded;
}

absl::Status CpuProgram::ChooseAllLayouts() {
  const KnownLayouts known = [this](int device, const std::string& name) -> std::vector<OpaqueDesc> {
    const auto& persistent = resources_.devices[device]->persistent;
    const auto found = persistent.find(name);
    return found == persistent.end() ? std::vector<OpaqueDesc>() : found->second.descs;
  };
  absl::Status status;
  resources_.devices[0]->lane(Lane::kCompute).queue->Call([&] {
    status = CatchErrors([&]() -> absl::Status {
      auto layouts = cpu::ChooseLayouts(program_, resources_.reference_kernels, known, resources_.engine);
      if (layouts.ok()) layouts_ = *std::move(layouts);
      return layouts.status();
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
                      .engine = resources_.engine,
                      .stream = lane.stream,
                      .slots = slots_,
                      .added_reorders = &added_reorders_};
  for (const BufferUse& use : task.uses)
    context.operands.push_back({layouts_.ViewOf(program_, use), use.buffer, use.access});
  return context;
}

// Each kernel is prepared on the thread that will run it.
absl::Status CpuProgram::PrepareComputeTasks() {
  absl::Status status;
  for (int d = 0; d < program_.device_count; ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      resources_.devices[d]->lanes[l].queue->Call([&] {
        for (const Task& task : program_.tasks) {
          const auto* compute = std::get_if<program::Compute>(&task.what);
          if (compute == nullptr || task.device != d || task.lane != static_cast<Lane>(l) || !status.ok()) continue;
          PreparedKernel kernel =
              CatchErrors([&] { return PrepareCompute(compute->op, ContextOf(task), resources_.reference_kernels); });
          status = InTask(kernel.status(), task);
          if (kernel.ok()) tasks_[task.id.value].kernel = *std::move(kernel);
        }
      });
    }
  }
  return status;
}

absl::Status CpuProgram::PrepareTransfers() {
  std::map<int, std::vector<const Task*>> messages, instances;
  for (const Task& task : program_.tasks) {
    if (const auto* exchange = std::get_if<program::Exchange>(&task.what)) messages[exchange->message].push_back(&task);
    if (const auto* collective = std::get_if<program::Collective>(&task.what)) {
      auto& members = instances[collective->instance];
      const std::vector<int>& group = program_.groups[collective->group];
      members.resize(group.size());
      members[std::find(group.begin(), group.end(), task.device) - group.begin()] = &task;
    }
  }
  const auto prepare = [&](const std::vector<const Task*>& tasks, auto make) -> absl::Status {
    std::vector<TaskContext> contexts;
    for (const Task* task : tasks) contexts.push_back(ContextOf(*task));
    absl::StatusOr<PreparedTransfer> transfer = make(absl::MakeConstSpan(contexts));
    if (!transfer.ok()) return InTask(transfer.status(), *tasks[0]);
    for (size_t m = 0; m < tasks.size(); ++m) tasks_[tasks[m]->id.value].kernel = std::move(transfer->kernels[m]);
    rendezvous_.push_back(transfer->rendezvous);
    return absl::OkStatus();
  };
  for (const auto& [message, tasks] : messages) {
    RETURN_IF_ERROR(prepare(tasks, PrepareExchange));
  }
  for (const auto& [instance, tasks] : instances) {
    RETURN_IF_ERROR(prepare(tasks, PrepareCollective));
  }
  return absl::OkStatus();
}

void CpuProgram::CountMemory() {
  memory_.resize(program_.device_count);
  scratch_bytes_.assign(program_.device_count, {0, 0, 0});
  for (const Task& task : program_.tasks) {
    int64_t& largest = scratch_bytes_[task.device][static_cast<int>(task.lane)];
    largest = std::max(largest, tasks_[task.id.value].kernel->workspace_bytes());
  }
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.lifetime != program::Lifetime::kPersistent || !IsRoot(buffer)) continue;
    memory_[buffer.device].persistent_bytes += layouts_.root_bytes[buffer.id.value];
  }
  for (int d = 0; d < program_.device_count; ++d) {
    memory_[d].step_arena_bytes = placement_.step_bytes[d];
    for (int64_t bytes : scratch_bytes_[d]) memory_[d].workspace_bytes += bytes;
  }
}

absl::Status CpuProgram::CheckLimit() const {
  if (resources_.memory_limit_bytes == 0) return absl::OkStatus();
  for (int d = 0; d < program_.device_count; ++d) {
    const Device& device = *resources_.devices[d];
    int64_t fresh_persistent = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.device != d || buffer.lifetime != program::Lifetime::kPersistent || !IsRoot(buffer)) continue;
      if (!device.persistent.contains(buffer.name)) fresh_persistent += layouts_.root_bytes[buffer.id.value];
    }
    const int64_t needed =
        device.allocated_bytes + fresh_persistent + memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
    if (needed > resources_.memory_limit_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("device ", d, " needs ", needed, " bytes (step buffers ", memory_[d].step_arena_bytes,
                       ", persistent buffers ", memory_[d].persistent_bytes, ", workspaces ", memory_[d].workspace_bytes,
                       ", other Programs the rest), its limit is ", resources_.memory_limit_bytes,
                       "; use a smaller batch or more devices"));
    }
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::TakeMemory() {
  workspaces_.resize(program_.device_count);
  base_.assign(program_.buffers.size(), nullptr);
  for (int d = 0; d < program_.device_count; ++d) {
    ASSIGN_OR_RETURN(Arena arena, Arena::Allocate(placement_.step_bytes[d]));
    step_arenas_.push_back(std::move(arena));
    for (int l = 0; l < program::kLaneCount; ++l) {
      ASSIGN_OR_RETURN(Arena workspace, Arena::Allocate(scratch_bytes_[d][l]));
      workspaces_[d][l] = std::move(workspace);
    }
    resources_.devices[d]->allocated_bytes += memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
  }
  for (const Buffer& buffer : program_.buffers) {
    if (!IsRoot(buffer)) continue;
    if (buffer.lifetime == program::Lifetime::kPersistent) {
      RETURN_IF_ERROR(TakePersistent(buffer));
    } else {
      base_[buffer.id.value] = step_arenas_[buffer.device].data() + placement_.offset[buffer.id.value];
    }
  }
  return absl::OkStatus();
}

absl::Status CpuProgram::TakePersistent(const Buffer& buffer) {
  Device& device = *resources_.devices[buffer.device];
  const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
  const int64_t bytes = layouts_.root_bytes[buffer.id.value], first_part = bucket == nullptr ? 0 : bucket->first_part;
  const auto [found, is_new] = device.persistent.try_emplace(buffer.name);
  PersistentBuffer& persistent = found->second;
  if (is_new) {
    absl::StatusOr<Arena> memory = Arena::Allocate(bytes);
    if (!memory.ok()) {
      device.persistent.erase(found);
      return memory.status();
    }
    persistent = {buffer.dtype, buffer.shape, bytes, first_part, {}, *std::move(memory)};
    for (BufferId tensor : TensorsOf(buffer)) persistent.descs.push_back(layouts_.views[tensor.value].desc);
    device.allocated_bytes += bytes;
  } else if (persistent.dtype != buffer.dtype || persistent.shape != buffer.shape || persistent.bytes != bytes ||
             persistent.first_part != first_part) {
    return absl::FailedPreconditionError(absl::StrCat(
        "persistent buffer ", buffer.name, " of device ", buffer.device, " was loaded before as ",
        program::Name(persistent.dtype), program::ToString(persistent.shape), " of ", persistent.bytes,
        " bytes, and is now ", program::Name(buffer.dtype), program::ToString(buffer.shape), " of ", bytes, " bytes"));
  }
  base_[buffer.id.value] = persistent.memory.data();
  return absl::OkStatus();
}

void CpuProgram::BindTasks() {
  for (const Task& task : program_.tasks) {
    ReadyTask& ready = tasks_[task.id.value];
    std::vector<char*> data;
    for (BufferId buffer : UsedBuffers(task)) data.push_back(BaseOf(buffer));
    ready.kernel->Bind(data, workspaces_[task.device][static_cast<int>(task.lane)].data());
    if (kThreadSanitizer) ready.announcer = Announcer(ContextOf(task).operands, data);
    ready.zeroed = PaddingBehind(task);
    for (int slot = 0; slot < 2; ++slot) ready.start[slot] = ready.end[slot] = origin_;
  }
}

// A step bucket shares memory with other buffers, so that its padding must be cleared in each step: by the tasks that write
// the member before it.
std::vector<CpuProgram::ByteRange> CpuProgram::PaddingBehind(const Task& task) const {
  std::vector<ByteRange> ranges;
  for (const BufferUse& use : task.uses) {
    const auto* member = std::get_if<program::BucketMember>(&program_.buffer(use.buffer).storage);
    if (member == nullptr || use.access != program::Access::kWrite) continue;
    const auto& bucket = std::get<program::Bucket>(program_.buffer(member->bucket).storage);
    const BucketImage& image = layouts_.buckets[member->bucket.value];
    const int64_t held_begin = bucket.first_part * image.part_bytes;
    const int64_t held_end = held_begin + bucket.held_parts * image.part_bytes;
    const bool last = member->index + 1 == static_cast<int>(bucket.members.size());
    const int64_t begin = std::max(held_begin, image.member_begin[member->index] + image.member_bytes[member->index]);
    const int64_t end = std::min(held_end, last ? held_end : image.member_begin[member->index + 1]);
    if (begin < end) ranges.push_back({BaseOf(member->bucket) + (begin - held_begin), end - begin});
  }
  return ranges;
}

void CpuProgram::ReserveQueues() {
  constexpr int64_t kStepsAhead = 3;
  for (const Task& task : program_.tasks) {
    Device::LaneState& lane = resources_.devices[task.device]->lane(task.lane);
    lane.reserved_commands += kStepsAhead * static_cast<int64_t>(1 + task.waits.size() + task.waits_previous.size());
  }
  for (const auto& device : resources_.devices) {
    for (Device::LaneState& lane : device->lanes) lane.queue->Reserve(lane.reserved_commands + 16);
  }
}

CpuProgram::~CpuProgram() {
  for (const auto& device : resources_.devices) {
    for (Device::LaneState& lane : device->lanes) lane.queue->Call([] {});  // all commands for this Program are behind us
  }
  for (size_t d = 0; d < step_arenas_.size(); ++d) {
    resources_.devices[d]->allocated_bytes -= memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
  }
}

void CpuProgram::Launch(TaskId task, int64_t step) {
  if (!any_launched_) first_step_ = step;
  any_launched_ = true;
  tasks_[task.value].launched_step = step;
  const Task& what = program_.task(task);
  resources_.devices[what.device]->lane(what.lane).queue->Push(
      {.handler = this, .task = task.value, .is_wait = false, .step = step});
}

void CpuProgram::Await(int device, Lane lane, TaskId task, int64_t step) {
  if (!any_launched_ || step < first_step_) return;
  resources_.devices[device]->lane(lane).queue->Push({.handler = this, .task = task.value, .is_wait = true, .step = step});
}

void CpuProgram::WaitForTask(int32_t task, int64_t step) { progress_.WaitFor(task, step); }

void CpuProgram::RunTask(int32_t task, int64_t step) {
  ReadyTask& ready = tasks_[task];
  ready.start[step % 2] = Clock::now();
  if (!failed_.load(std::memory_order_acquire)) {
    ready.announcer.Announce();
    const absl::Status status = CatchErrors([&] { return ready.kernel->Run(step); });
    for (const ByteRange& range : ready.zeroed) std::fill(range.begin, range.begin + range.bytes, 0);
    ready.announcer.Announce();
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
  for (const ReadyTask& task : tasks_) {
    times.push_back({absl::FromChrono(task.start[step % 2] - origin_), absl::FromChrono(task.end[step % 2] - origin_)});
  }
  return times;
}

}  // namespace colonnade::cpu
