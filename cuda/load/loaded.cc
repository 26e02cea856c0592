// The stages of Load; the steps are in loaded_step.cc, the logical reads and writes in loaded_access.cc.
#include "cuda/load/loaded.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/ops/collective.h"
#include "cuda/ops/nccl.h"
#include "cuda/ops/prepare.h"
#include "cuda/status.h"
#include "engine/io/pages.h"
#include "program/status_macros.h"

namespace colonnade::cuda {

using program::Buffer;
using program::BufferId;
using program::Program;
using program::Task;
using program::TaskId;

namespace {

// Stands for memory that has not been taken yet: addresses are counted from it, and none is followed.
char* const kNowhere = reinterpret_cast<char*>(uintptr_t{1} << 40);

bool IsRoot(const Buffer& buffer) {
  return std::holds_alternative<program::Root>(buffer.storage) || std::holds_alternative<program::Bucket>(buffer.storage);
}

}  // namespace

CudaProgram::CudaProgram(Resources& resources, const Program& program, const engine::HostSlot* slots)
    : resources_(resources),
      program_(program),
      slots_(slots),
      queues_(program, *this),
      tasks_(program.tasks.size()),
      events_(program.tasks.size()),
      barriers_(program.tasks.size()),
      communicators_(program.groups.size(), -1),
      base_(program.buffers.size(), kNowhere) {
  for (int slot = 0; slot < 2; ++slot) host_[slot] = slots[slot];
}

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Prepare(Resources& resources, const Program& program,
                                                                  const engine::HostSlot* slots) {
  const int devices = static_cast<int>(resources.devices.size());
  if (program.device_count > devices) {
    return absl::InvalidArgumentError(absl::StrCat("the Program is for ", program.device_count, " devices, the backend has ",
                                                   devices, "; make it with as many"));
  }
  if (program.dtype != program::DType::kF32 && program.dtype != program::DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("the CUDA backend computes in f32 and bf16, not in ", program::Name(program.dtype)));
  }
  auto loaded = std::unique_ptr<CudaProgram>(new CudaProgram(resources, program, slots));
  loaded->layouts_ = ChooseLayouts(program, resources.precision);
  loaded->placement_ = program::PlaceBuffers(
      program, [&](const Buffer& buffer) { return loaded->layouts_.root_bytes[buffer.id.value]; }, kAlignment);
  loaded->nccl_sums_ = !resources.deterministic && EveryCopyHasOneSum(program);
  loaded->workspaces_.resize(program.device_count);
  RETURN_IF_ERROR(loaded->PrepareTasks());
  loaded->CountMemory();
  return loaded;
}

absl::StatusOr<std::vector<engine::DeviceMemory>> CudaProgram::MemoryOf(Resources& resources, const Program& program) {
  engine::HostSlot slots[2];
  for (engine::HostSlot& slot : slots) {
    slot.inputs.resize(program.inputs.size());
    for (const program::Output& output : program.outputs) slot.outputs.emplace_back(output.pieces.size());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> prepared, Prepare(resources, program, slots));
  return prepared->memory_;
}

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Load(Resources& resources, const Program& program,
                                                               const engine::HostSlot (&slots)[2]) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> prepared, Prepare(resources, program, slots));
  std::unique_ptr<CudaProgram> loaded = std::move(prepared);
  RETURN_IF_ERROR(loaded->CheckLimit());
  RETURN_IF_ERROR(loaded->TakeMemory());
  RETURN_IF_ERROR(loaded->TakeHostMemory());
  RETURN_IF_ERROR(loaded->MakeCommunicators());
  loaded->added_reorders_.clear();
  RETURN_IF_ERROR(loaded->PrepareTasks());
  RETURN_IF_ERROR(loaded->MakeEvents());
  return loaded;
}

TaskContext CudaProgram::ContextOf(const Task& task) {
  const Device& device = resources_.devices[task.device];
  char* workspace = workspaces_[task.device][static_cast<int>(task.lane)].data();
  TaskContext context{
      .program = program_,
      .task = task,
      .operands = {},
      .workspace = workspace == nullptr ? kNowhere : workspace,
      .landing =
          (landing_arenas_.empty() ? kNowhere : landing_arenas_[task.device].data()) + tasks_[task.id.value].landing_offset,
      .gpu = device.gpu,
      .precision = resources_.precision,
      // Devices that hold the same parameters without reducing their gradients must compute the same bits.
      .deterministic = resources_.deterministic || program_.device_count > 1,
      .slots = host_,
      .choose = [&calls = *resources_.calls, gpu = device.gpu](Call& call) { return calls.Prepare(gpu, call); },
      .added_reorders = &added_reorders_};
  for (const program::BufferUse& use : task.uses) {
    context.operands.push_back({layouts_.ViewOf(program_, use), BaseOf(use.buffer)});
  }
  return context;
}

absl::Status CudaProgram::PrepareTasks() {
  for (const Task& task : program_.tasks) {
    Ready& ready = tasks_[task.id.value];
    ready.range = absl::StrCat(task.id.value, " ", program::Name(task), " ", task.from.layer);
    ready.fetch_range = absl::StrCat("fetch ", ready.range);
    if (const auto* compute = std::get_if<program::Compute>(&task.what)) {
      PreparedTask prepared = PrepareCompute(compute->op, ContextOf(task));
      if (!prepared.ok()) return InTask(prepared.status(), task);
      ready.phases = {std::move(prepared->calls)};
      ready.odd_calls = std::move(prepared->odd_calls);
      ready.workspace_bytes = prepared->workspace_bytes;
      ready.fetches = std::move(prepared->fetches);
      ready.landing_bytes = prepared->landing_bytes;
    } else if (const std::vector<TaskId>& sides = queues_.SidesOf(task.id); sides.front() == task.id) {
      if (absl::Status status = PrepareMeeting(sides); !status.ok()) return InTask(status, task);
    }
  }
  for (const Task& task : program_.tasks) {
    for (const ByteRange& range : PaddingBehind(program_, layouts_, task)) {
      tasks_[task.id.value].phases.back().push_back(ClearBytes{BaseOf(range.bucket) + range.begin, range.bytes});
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::MakeCommunicators() {
  for (const Task& task : program_.tasks) {
    if (tasks_[task.id.value].meets) continue;
    const int32_t group = std::get<program::Collective>(task.what).group;
    if (communicators_[group] >= 0) continue;
    std::vector<int> gpus;
    for (int device : program_.groups[group]) gpus.push_back(resources_.devices[device].gpu);
    ASSIGN_OR_RETURN(int made, resources_.calls->MakeCommunicator(gpus));
    communicators_[group] = made;
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::PrepareMeeting(const std::vector<TaskId>& sides) {
  std::vector<TaskId> members = sides;
  const auto* collective = std::get_if<program::Collective>(&program_.task(sides[0]).what);
  if (collective != nullptr) {
    const std::vector<int>& group = program_.groups[collective->group];
    const auto place_of = [&](TaskId id) {
      return std::find(group.begin(), group.end(), program_.task(id).device) - group.begin();
    };
    std::sort(members.begin(), members.end(), [&](TaskId a, TaskId b) { return place_of(a) < place_of(b); });
  }
  std::vector<TaskContext> contexts;
  for (TaskId id : members) contexts.push_back(ContextOf(program_.task(id)));
  const Reach reach = [&](int gpu, int other) { return resources_.calls->CanReach(gpu, other); };
  ASSIGN_OR_RETURN(std::vector<ReadyMember> prepared, collective == nullptr ? PrepareExchange(contexts, reach)
                                                      : resources_.uses_nccl && NcclServes(contexts, nccl_sums_)
                                                          ? PrepareNccl(contexts, communicators_[collective->group])
                                                          : PrepareCollective(contexts, reach));
  for (size_t m = 0; m < members.size(); ++m) {
    Ready& ready = tasks_[members[m].value];
    ready.phases = std::move(prepared[m].phases);
    ready.workspace_bytes = prepared[m].workspace_bytes;
    ready.meets = prepared[m].meets;
  }
  return absl::OkStatus();
}

void CudaProgram::CountMemory() {
  memory_.assign(program_.device_count, {});
  scratch_bytes_.assign(program_.device_count, {0, 0, 0});
  for (const Task& task : program_.tasks) {
    int64_t& largest = scratch_bytes_[task.device][static_cast<int>(task.lane)];
    largest = std::max(largest, tasks_[task.id.value].workspace_bytes);
  }
  landing_bytes_.assign(program_.device_count, 0);
  for (const Task& task : program_.tasks) {
    tasks_[task.id.value].landing_offset = landing_bytes_[task.device];
    landing_bytes_[task.device] += tasks_[task.id.value].landing_bytes;
  }
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.lifetime != program::Lifetime::kPersistent || !IsRoot(buffer)) continue;
    memory_[buffer.device].persistent_bytes += layouts_.root_bytes[buffer.id.value];
  }
  for (int d = 0; d < program_.device_count; ++d) {
    memory_[d].step_arena_bytes = placement_.step_bytes[d];
    memory_[d].workspace_bytes = landing_bytes_[d];
    for (int64_t bytes : scratch_bytes_[d]) memory_[d].workspace_bytes += bytes;
  }
}

absl::Status CudaProgram::CheckLimit() const {
  if (resources_.memory_limit_bytes == 0) return absl::OkStatus();
  for (int d = 0; d < program_.device_count; ++d) {
    const Device& device = resources_.devices[d];
    int64_t needed = device.allocated_bytes + memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.device != d || buffer.lifetime != program::Lifetime::kPersistent || !IsRoot(buffer)) continue;
      if (!device.persistent.contains(buffer.name)) needed += layouts_.root_bytes[buffer.id.value];
    }
    if (needed > resources_.memory_limit_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("device ", d, " needs ", needed, " bytes, its limit is ",
                                                       resources_.memory_limit_bytes,
                                                       "; use a smaller batch or more devices"));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::TakeMemory() {
  for (int d = 0; d < program_.device_count; ++d) {
    Device& device = resources_.devices[d];
    device.allocated_bytes += memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
    ++charged_devices_;
    absl::StatusOr<Arena> arena = Arena::Allocate(*resources_.calls, device.gpu, placement_.step_bytes[d]);
    if (!arena.ok()) return WithContext(arena.status(), absl::StrCat("step buffers of device ", d));
    step_arenas_.push_back(*std::move(arena));
    absl::StatusOr<Arena> landing = Arena::Allocate(*resources_.calls, device.gpu, landing_bytes_[d]);
    if (!landing.ok()) return WithContext(landing.status(), absl::StrCat("landing of inputs on device ", d));
    landing_arenas_.push_back(*std::move(landing));
    for (int l = 0; l < program::kLaneCount; ++l) {
      absl::StatusOr<Arena> workspace = Arena::Allocate(*resources_.calls, device.gpu, scratch_bytes_[d][l]);
      if (!workspace.ok()) return WithContext(workspace.status(), absl::StrCat("workspace of device ", d));
      workspaces_[d][l] = *std::move(workspace);
    }
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

absl::Status CudaProgram::TakePersistent(const Buffer& buffer) {
  Device& device = resources_.devices[buffer.device];
  const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
  const int64_t bytes = layouts_.root_bytes[buffer.id.value], first_part = bucket == nullptr ? 0 : bucket->first_part;
  const auto [found, is_new] = device.persistent.try_emplace(buffer.name);
  PersistentBuffer& persistent = found->second;
  if (is_new) {
    absl::StatusOr<Arena> memory = Arena::Allocate(*resources_.calls, device.gpu, bytes);
    if (!memory.ok()) {
      device.persistent.erase(found);
      return WithContext(memory.status(), absl::StrCat("persistent buffer ", buffer.name));
    }
    persistent = {buffer.dtype, buffer.shape, bytes, first_part, *std::move(memory)};
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

// Inputs are read where the host fills them; outputs are small, and land in memory of our own until Synchronize.
absl::Status CudaProgram::TakeHostMemory() {
  for (int slot = 0; slot < 2; ++slot) {
    for (size_t i = 0; i < slots_[slot].inputs.size(); ++i) {
      const program::Input& input = program_.inputs[i];
      const int64_t bytes = program::ElementCount(input.shape) * program::SizeInBytes(input.host_dtype);
      void* host = slots_[slot].inputs[i];
      // What shares a page with other things stays as it is: copies that begin in pinned memory must end in it.
      if (bytes == 0 || reinterpret_cast<uintptr_t>(host) % engine::kPageBytes != 0) continue;
      const auto pages = static_cast<int64_t>(engine::WholePages(static_cast<size_t>(bytes)));
      RETURN_IF_ERROR(resources_.calls->Register(host, pages));
      registered_.push_back(host);
    }
    for (size_t o = 0; o < slots_[slot].outputs.size(); ++o) {
      for (size_t p = 0; p < slots_[slot].outputs[o].size(); ++p) {
        ASSIGN_OR_RETURN(void* landing, resources_.calls->AllocateHost(std::max<int64_t>(OutputBytes(o, p), 1)));
        landings_.push_back(landing);
        host_[slot].outputs[o][p] = landing;
      }
    }
  }
  return absl::OkStatus();
}

int64_t CudaProgram::OutputBytes(size_t output, size_t piece) const {
  const program::Piece& what = program_.outputs[output].pieces[piece];
  return what.region.elements() * program::SizeInBytes(program_.buffer(what.buffer).dtype);
}

absl::Status CudaProgram::MakeEvents() {
  absl::Status status;
  const auto make = [&](int device, bool timed) -> Event {
    absl::StatusOr<Event> event = resources_.calls->MakeEvent(resources_.devices[device].gpu, timed);
    status.Update(event.status());
    return event.ok() ? *event : nullptr;
  };
  std::vector<bool> is_awaited(program_.tasks.size(), false);
  for (const Task& task : program_.tasks) {
    for (TaskId wait : task.waits) is_awaited[wait.value] = true;
    for (TaskId wait : task.waits_previous) is_awaited[wait.value] = true;
  }
  for (int d = 0; d < program_.device_count; ++d) {
    for (int l = 0; l < program::kLaneCount; ++l) {
      const std::vector<TaskId> order = program::LaneOrder(program_, d, static_cast<program::Lane>(l));
      if (!order.empty()) events_[order.back().value].last_of_lane = true;
    }
  }
  for (const Task& task : program_.tasks) {
    Events& events = events_[task.id.value];
    for (int parity = 0; parity < 2; ++parity) {
      if (is_awaited[task.id.value]) events.ended[parity] = make(task.device, false);
      if (tasks_[task.id.value].landing_bytes > 0) {
        events.landed[parity] = make(task.device, false);
        events.placed[parity] = make(task.device, false);
      }
      if (!resources_.times_tasks) continue;
      events.start[parity] = make(task.device, true);
      events.end[parity] = make(task.device, true);
    }
    const std::vector<TaskId>& sides = queues_.SidesOf(task.id);
    if (sides.size() < 2 || sides.front() != task.id || !tasks_[task.id.value].meets) continue;
    barriers_[task.id.value].resize(tasks_[task.id.value].phases.size() + 1);
    for (std::vector<Event>& barrier : barriers_[task.id.value]) {
      for (TaskId side : sides) barrier.push_back(make(program_.task(side).device, false));
    }
  }
  lane_ended_.resize(program_.device_count);
  joined_.resize(program_.device_count);
  for (int d = 0; d < program_.device_count; ++d) {
    now_.push_back(make(d, false));
    for (Event& event : joined_[d]) event = make(d, false);
    for (auto& of_parity : lane_ended_[d]) {
      for (Event& event : of_parity) event = make(d, false);
    }
  }
  // Times are of events that are recorded each step anew, which graphs do not do.
  graphs_on_ = resources_.uses_graphs && !resources_.times_tasks &&
               std::all_of(tasks_.begin(), tasks_.end(), [](const Ready& task) { return task.meets; });
  for (Event& event : graph_ended_) event = make(0, false);
  origins_.resize(resources_.times_tasks ? program_.device_count : 0);
  for (size_t d = 0; d < origins_.size(); ++d) {
    for (Event& event : origins_[d].began) event = make(static_cast<int>(d), true);
  }
  return status;
}

CudaProgram::~CudaProgram() {
  Calls& calls = *resources_.calls;
  // All that was enqueued for this Program is behind us.
  if (any_launched_) Synchronize(last_step_).IgnoreError();
  const auto destroy = [&](int device, Event event) {
    if (event != nullptr) calls.Destroy(resources_.devices[device].gpu, event);
  };
  for (const Task& task : program_.tasks) {
    const Events& events = events_[task.id.value];
    for (const auto* kind : {&events.ended, &events.start, &events.end, &events.landed, &events.placed}) {
      for (Event event : *kind) destroy(task.device, event);
    }
    for (const std::vector<Event>& barrier : barriers_[task.id.value]) {
      const std::vector<TaskId>& sides = queues_.SidesOf(task.id);
      for (size_t m = 0; m < barrier.size(); ++m) destroy(program_.task(sides[m]).device, barrier[m]);
    }
  }
  for (size_t d = 0; d < now_.size(); ++d) destroy(static_cast<int>(d), now_[d]);
  for (size_t d = 0; d < lane_ended_.size(); ++d) {
    for (const auto& of_parity : lane_ended_[d]) {
      for (Event event : of_parity) destroy(static_cast<int>(d), event);
    }
  }
  for (size_t d = 0; d < joined_.size(); ++d) {
    for (Event event : joined_[d]) destroy(static_cast<int>(d), event);
  }
  for (Event event : graph_ended_) destroy(0, event);
  for (Graph graph : graphs_) {
    if (graph != nullptr) calls.Destroy(graph);
  }
  for (size_t d = 0; d < origins_.size(); ++d) {
    for (Event event : origins_[d].began) destroy(static_cast<int>(d), event);
  }
  for (void* data : registered_) calls.Unregister(data);
  for (void* data : landings_) calls.FreeHost(data);
  for (int d = 0; d < charged_devices_; ++d) {
    resources_.devices[d].allocated_bytes -= memory_[d].step_arena_bytes + memory_[d].workspace_bytes;
  }
}

}  // namespace colonnade::cuda
