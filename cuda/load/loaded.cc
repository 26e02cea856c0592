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

using program::Program;
using program::Task;
using program::TaskId;

namespace {

constexpr int kLandingArea = program::kLaneCount;  // behind the workspaces of the lanes

}  // namespace

CudaProgram::CudaProgram(Resources& resources, const Program& program, const engine::HostSlot* slots)
    : resources_(resources),
      program_(program),
      slots_(slots),
      memory_(program, resources.books),
      queues_(program, *this),
      tasks_(program.tasks.size()),
      events_(program.tasks.size()),
      barriers_(program.tasks.size()),
      communicators_(program.groups.size(), -1) {
  for (int slot = 0; slot < 2; ++slot) host_[slot] = slots[slot];
}

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Prepare(Resources& resources, const Program& program,
                                                                  const engine::HostSlot* slots) {
  RETURN_IF_ERROR(engine::CheckDeviceCount(program, static_cast<int>(resources.devices.size())));
  if (program.dtype != program::DType::kF32 && program.dtype != program::DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("the CUDA backend computes in f32 and bf16, not in ", program::Name(program.dtype)));
  }
  RETURN_IF_ERROR(resources.books.CheckPersistentBuffers(program));
  auto loaded = std::unique_ptr<CudaProgram>(new CudaProgram(resources, program, slots));
  loaded->layouts_ = ChooseLayouts(program, resources.precision);
  loaded->memory_.Place(loaded->layouts_.root_bytes, kAlignment);
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
  RETURN_IF_ERROR(loaded->memory_.Take());
  RETURN_IF_ERROR(loaded->TakeHostMemory());
  RETURN_IF_ERROR(loaded->MakeCommunicators());
  loaded->added_reorders_.clear();
  RETURN_IF_ERROR(loaded->PrepareTasks());
  RETURN_IF_ERROR(loaded->MakeEvents());
  return loaded;
}

TaskContext CudaProgram::ContextOf(const Task& task) {
  const Device& device = resources_.devices[task.device];
  TaskContext context{
      .program = program_,
      .task = task,
      .operands = {},
      .workspace = memory_.workspace(task.device, static_cast<int>(task.lane)),
      .landing = memory_.workspace(task.device, kLandingArea) + tasks_[task.id.value].landing_offset,
      .gpu = device.gpu,
      .precision = resources_.precision,
      // Devices that hold the same parameters without reducing their gradients must compute the same bits.
      .deterministic = resources_.deterministic || program_.device_count > 1,
      .slots = host_,
      .choose = [&calls = *resources_.calls, gpu = device.gpu](Call& call) { return calls.Prepare(gpu, call); },
      .added_reorders = &added_reorders_};
  for (const program::BufferUse& use : task.uses) {
    context.operands.push_back({layouts_.ViewOf(program_, use), memory_.BaseOf(use.buffer)});
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
    } else if (const absl::Span<const TaskId> sides = queues_.SidesOf(task.id); sides.front() == task.id) {
      if (absl::Status status = PrepareMeeting(sides); !status.ok()) return InTask(status, task);
    }
  }
  for (const Task& task : program_.tasks) {
    for (const engine::ByteRange& range : engine::PaddingBehind(program_, layouts_.buckets, task)) {
      tasks_[task.id.value].phases.back().push_back(ClearBytes{memory_.BaseOf(range.bucket) + range.begin, range.bytes});
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

absl::Status CudaProgram::PrepareMeeting(absl::Span<const TaskId> sides) {
  const auto* collective = std::get_if<program::Collective>(&program_.task(sides[0]).what);
  const std::vector<TaskId> members =
      collective != nullptr ? program::ByMember(program_, sides) : std::vector<TaskId>(sides.begin(), sides.end());
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

void CudaProgram::CountWorkspaces() {
  std::vector<int64_t> landing_bytes(program_.device_count, 0);
  for (const Task& task : program_.tasks) {
    Ready& ready = tasks_[task.id.value];
    memory_.WantWorkspace(task.device, static_cast<int>(task.lane), ready.workspace_bytes);
    ready.landing_offset = landing_bytes[task.device];
    landing_bytes[task.device] += ready.landing_bytes;
  }
  for (int d = 0; d < program_.device_count; ++d) memory_.WantWorkspace(d, kLandingArea, landing_bytes[d]);
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
    const absl::Span<const TaskId> sides = queues_.SidesOf(task.id);
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
      const absl::Span<const TaskId> sides = queues_.SidesOf(task.id);
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
}

}  // namespace colonnade::cuda
