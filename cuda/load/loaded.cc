// The stages of Load; the steps are in loaded_step.cc, the logical reads and writes in loaded_access.cc.
#include "cuda/load/loaded.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cuda/ops/collective.h"
#include "cuda/ops/nccl.h"
#include "cuda/ops/prepare.h"
#include "cuda/status.h"

namespace colonnade::cuda {

using program::Program;
using program::Task;
using program::TaskId;

namespace {

constexpr int64_t kLargeInput = int64_t{64} << 10;  // that KeepImages keeps

// Calls of odd steps differ: they are on other memory of the host, or on the other slot of a buffer.
bool DependsOnParity(const Program& program, const Task& task, const program::Op& op) {
  return std::holds_alternative<program::Load>(op) || std::holds_alternative<program::Store>(op) ||
         program::UsesSlots(program, task);
}

}  // namespace

CudaProgram::CudaProgram(Resources& resources, const Program& program, const engine::HostSlot* slots)
    : LoadedProgram(program),
      resources_(resources),
      staging_(*resources.calls, program, slots),
      memory_(program, resources.books),
      queues_(program, *this),
      tasks_(program.tasks.size()),
      pool_(resources),
      graphs_(resources, program.device_count),
      communicators_(program.groups.size(), -1) {}

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Prepare(Resources& resources, const Program& program,
                                                                  const engine::HostSlot* slots) {
  RETURN_IF_ERROR(engine::CheckDeviceCount(program, static_cast<int>(resources.devices.size())));
  if (program.dtype != program::DType::kF32 && program.dtype != program::DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("the CUDA backend computes in f32 and bf16, not in ", program::Name(program.dtype)));
  }
  RETURN_IF_ERROR(resources.books.CheckPersistentTensors(program));
  auto loaded = std::unique_ptr<CudaProgram>(new CudaProgram(resources, program, slots));
  loaded->layouts_ = ChooseLayouts(program, resources.precision);
  loaded->memory_.Place(loaded->layouts_.root_bytes, loaded->layouts_.buckets, kAlignment);
  loaded->nccl_sums_ = !resources.deterministic && EveryCopyHasOneSum(program);
  RETURN_IF_ERROR(loaded->PrepareTasks());
  loaded->CountWorkspaces();
  return loaded;
}

absl::StatusOr<std::vector<engine::DeviceMemory>> CudaProgram::MemoryOf(Resources& resources, const Program& program) {
  const engine::HostSlot slot = engine::SlotWithoutMemory(program), slots[2] = {slot, slot};
  ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> prepared, Prepare(resources, program, slots));
  return prepared->memory_.OfDevices();
}

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Load(Resources& resources, const Program& program,
                                                               const engine::HostSlot (&slots)[2]) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> loaded, Prepare(resources, program, slots));
  RETURN_IF_ERROR(loaded->MakeCommunicators());  // which take memory themselves, so that ours has what is left
  for (const Device& device : resources.devices) RETURN_IF_ERROR(cuda::Drain(*resources.calls, device));
  RETURN_IF_ERROR(loaded->memory_.Take());
  RETURN_IF_ERROR(loaded->staging_.Take());
  if (const int64_t refused = loaded->staging_.refused_bytes(); refused > 0) {
    loaded->notes_.push_back(
        absl::StrFormat("the system did not pin %.1f MB of the host's memory that inputs are copied from: copies to GPUs "
                        "are slower, and the host waits for them",
                        static_cast<double>(refused) / 1e6));
  }
  if (loaded->lacks_nccl_) {
    loaded->notes_.push_back(absl::StrCat(resources.lack_of_nccl, "; GPUs add and gather by copies between each other"));
  }
  loaded->added_reorders_.clear();
  RETURN_IF_ERROR(loaded->PrepareTasks());
  RETURN_IF_ERROR(loaded->MakeEvents());
  loaded->memory_.OnMove([program = loaded.get()](const absl::Status& room) { program->MoveTo(room); });
  return loaded;
}

// Areas have moved, with nothing in flight: calls are made anew, and graphs that hold the old ones are forgotten.
void CudaProgram::MoveTo(const absl::Status& room) {
  graphs_.Forget();
  steps_in_turn_ = 0;
  added_reorders_.clear();
  FailUnlessOk(room.ok() ? PrepareTasks() : room);
}

TaskContext CudaProgram::ContextOf(const Task& task, int parity) {
  const Device& device = resources_.devices[task.device];
  TaskContext context{
      .program = program_,
      .task = task,
      .operands = {},
      .workspace = memory_.workspace(task.device, static_cast<int>(task.lane)),
      .gpu = device.gpu,
      .precision = resources_.precision,
      .deterministic = EnginesGiveEqualBits(),
      .host = &staging_.slots()[parity],
      .choose = [&calls = *resources_.calls, gpu = device.gpu](Call& call) { return calls.Prepare(gpu, call); },
      .added_reorders = &added_reorders_};
  for (const program::BufferUse& use : task.uses) {
    context.operands.push_back({layouts_.ViewOf(program_, use), memory_.BaseOf(use.buffer, parity),
                                engine::MembersOf(program_, layouts_.buckets, use)});
  }
  return context;
}

absl::Status CudaProgram::PrepareTasks() {
  for (const Task& task : program_.tasks) {
    LoadedTask& ready = tasks_[task.id.value];
    ready.range = absl::StrCat(task.id.value, " ", program::Name(task), " ", task.provenance.layer);
    if (const auto* compute = std::get_if<program::Compute>(&task.body)) {
      if (absl::Status status = PrepareComputeTask(task, compute->op); !status.ok()) return InTask(status, task);
    } else if (const absl::Span<const TaskId> sides = queues_.SidesOf(task.id); sides.front() == task.id) {
      if (absl::Status status = PrepareMeeting(sides); !status.ok()) return InTask(status, task);
    }
  }
  for (const Task& task : program_.tasks) {
    for (const engine::ByteRange& range : engine::PaddingBehind(program_, layouts_.buckets, task)) {
      const ClearBytes clear{memory_.BaseOf(range.bucket) + range.begin, range.bytes};
      LoadedTask& ready = tasks_[task.id.value];
      ready.phases.back().push_back(clear);
      if (!ready.odd_calls.empty()) ready.odd_calls.push_back(clear);
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::PrepareComputeTask(const Task& task, const program::Op& op) {
  LoadedTask& ready = tasks_[task.id.value];
  if (DependsOnParity(program_, task, op)) {
    ASSIGN_OR_RETURN(TaskCalls odd, PrepareCompute(op, ContextOf(task, 1)));
    ready.odd_calls = std::move(odd.calls);
    std::erase_if(added_reorders_, [&](const engine::AddedReorder& added) { return added.task == task.id; });
  }
  ASSIGN_OR_RETURN(TaskCalls prepared, PrepareCompute(op, ContextOf(task, 0)));
  ready.phases = {std::move(prepared.calls)};
  ready.workspace_bytes = prepared.workspace_bytes;
  ready.is_kept = task.lane == program::Lane::kLoad && task.work.bytes_written >= kLargeInput;
  return absl::OkStatus();
}

absl::Status CudaProgram::MakeCommunicators() {
  for (const Task& task : program_.tasks) {
    if (tasks_[task.id.value].meets) continue;
    const int32_t group = std::get<program::Collective>(task.body).group;
    if (communicators_[group] >= 0) continue;
    std::vector<int> gpus;
    for (int device : program_.groups[group]) gpus.push_back(resources_.devices[device].gpu);
    ASSIGN_OR_RETURN(int made, resources_.calls->MakeCommunicator(gpus));
    communicators_[group] = made;
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::PrepareMeeting(absl::Span<const TaskId> sides) {
  const auto* collective = std::get_if<program::Collective>(&program_.task(sides[0]).body);
  const std::vector<TaskId> members =
      collective != nullptr ? program::ByMember(program_, sides) : std::vector<TaskId>(sides.begin(), sides.end());
  std::vector<TaskContext> contexts;
  for (TaskId id : members) contexts.push_back(ContextOf(program_.task(id), 0));
  const Reach reach = [&](int gpu, int other) { return resources_.calls->CanReach(gpu, other); };
  const bool serves = collective != nullptr && NcclServes(contexts, nccl_sums_), by_nccl = serves && resources_.uses_nccl;
  lacks_nccl_ = lacks_nccl_ || (serves && !resources_.lack_of_nccl.empty());
  sums_by_nccl_ = sums_by_nccl_ || (by_nccl && Sums(collective->kind));
  ASSIGN_OR_RETURN(std::vector<MemberCalls> prepared, collective == nullptr ? PrepareExchange(contexts, reach)
                                                      : by_nccl ? PrepareNccl(contexts, communicators_[collective->group])
                                                                : PrepareCollective(contexts, reach));
  for (size_t m = 0; m < members.size(); ++m) {
    LoadedTask& ready = tasks_[members[m].value];
    ready.phases = std::move(prepared[m].phases);
    ready.workspace_bytes = prepared[m].workspace_bytes;
    ready.meets = prepared[m].meets;
  }
  return absl::OkStatus();
}

void CudaProgram::CountWorkspaces() {
  for (const Task& task : program_.tasks) {
    memory_.WantWorkspace(task.device, static_cast<int>(task.lane), tasks_[task.id.value].workspace_bytes);
  }
}

absl::Status CudaProgram::MakeEvents() {
  std::vector<EventNeeds> needs(tasks_.size());
  for (const Task& task : program_.tasks) {
    const LoadedTask& ready = tasks_[task.id.value];
    EventNeeds& of_task = needs[task.id.value];
    of_task.phases = ready.phases.size();
    const absl::Span<const TaskId> members = queues_.SidesOf(task.id);
    if (members.size() > 1 && members.front() == task.id && ready.meets) of_task.members = members;
  }
  events_ = MakeStepEvents(program_, needs, resources_.times_tasks, pool_);
  graphs_.MakeEvents(pool_);
  // Times are of events that are recorded each step anew, which graphs do not do.
  const bool can_be_graphs = std::all_of(tasks_.begin(), tasks_.end(), [](const LoadedTask& task) { return task.meets; });
  if (resources_.graphs == Graphs::kOn && !can_be_graphs) {
    return absl::FailedPreconditionError(
        "steps as CUDA graphs: they cannot have collectives of NCCL; choose copies between peers, or graphs where they can "
        "be");
  }
  graphs_on_ = resources_.graphs != Graphs::kOff && !resources_.times_tasks && can_be_graphs;
  return pool_.status();
}

// All that was enqueued for this Program is behind us.
CudaProgram::~CudaProgram() {
  if (any_launched_) Synchronize(last_step_).IgnoreError();
}

}  // namespace colonnade::cuda
