#include "engine/loading.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "engine/error_context.h"
#include "program/formulas/rounding.h"

namespace colonnade::engine {

using program::Buffer;
using program::BufferId;
using program::Program;

namespace {

// Stands for memory that has not been taken yet: addresses are counted from it, and none is followed.
char* const kNowhere = reinterpret_cast<char*>(uintptr_t{1} << 40);

bool IsPersistent(const Buffer& buffer) {
  return buffer.lifetime == program::Lifetime::kPersistent && program::HasMemory(buffer);
}

constexpr char kOnItsOwn[] = "; load it on a backend of its own";

// The tensors of a persistent root or bucket; where they lie is left open.
std::vector<PersistentTensor> TensorsOf(const Program& program, const Buffer& buffer) {
  const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
  if (bucket == nullptr || bucket->members.empty()) {
    return {{.name = buffer.name, .kind = {.dtype = buffer.dtype, .shape = buffer.shape}}};
  }
  PersistentTensor::Kind in_bucket;
  if (bucket->held_parts < bucket->parts) {
    in_bucket = {.parts = bucket->parts, .first_part = bucket->first_part, .held_parts = bucket->held_parts};
    for (BufferId id : bucket->members) {
      const Buffer& member = program.buffer(id);
      in_bucket.members.push_back(absl::StrCat(member.name, program::ToString(member.shape)));
    }
  }
  std::vector<PersistentTensor> tensors;
  for (BufferId id : bucket->members) {
    const Buffer& member = program.buffer(id);
    PersistentTensor& tensor = tensors.emplace_back(PersistentTensor{.name = member.name, .kind = in_bucket});
    tensor.kind.dtype = member.dtype;
    tensor.kind.shape = member.shape;
  }
  return tensors;
}

std::string ToString(const PersistentTensor::Kind& kind) {
  const std::string tensor = absl::StrCat(program::Name(kind.dtype), program::ToString(kind.shape));
  if (kind.held_parts == 0) return tensor;
  return absl::StrCat(tensor, " of which it has parts [", kind.first_part, ", ", kind.first_part + kind.held_parts, ") of ",
                      kind.parts, " of a bucket of ", absl::StrJoin(kind.members, " "));
}

}  // namespace

absl::Status CheckDeviceCount(const Program& program, int devices) {
  if (program.device_count <= devices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the Program is for ", program.device_count, " devices, the backend has ",
                                                 devices, "; make it with as many"));
}

absl::Status CheckLogicalAccess(const Program& program, BufferId buffer, size_t bytes) {
  const Buffer& what = program.buffer(buffer);
  if (std::holds_alternative<program::Bucket>(what.storage)) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", what.name, " is a bucket; its members have logical content"));
  }
  const auto size = static_cast<size_t>(program::SizeInBytes(what.dtype)), count = bytes / size;
  if (bytes % size == 0 && static_cast<int64_t>(count) == program::ElementCount(what.shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer ", what.name, " has ", program::ElementCount(what.shape), " elements, not ", count));
}

HostSlot SlotWithoutMemory(const Program& program) {
  HostSlot slot;
  slot.inputs.resize(program.inputs.size());
  for (const program::Output& output : program.outputs) slot.outputs.emplace_back(output.pieces.size());
  return slot;
}

MemoryBooks::MemoryBooks(int devices, int64_t limit_bytes, Allocate allocate)
    : limit_bytes_(limit_bytes), allocate_(std::move(allocate)), devices_(devices) {}

absl::Status MemoryBooks::CheckKind(int device, const PersistentTensor& wanted) const {
  const auto held = devices_[device].persistent.find(wanted.name);
  if (held == devices_[device].persistent.end() || held->second.kind == wanted.kind) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("persistent tensor ", wanted.name, " of device ", device,
                                                    ": another Program on this backend holds ", ToString(held->second.kind),
                                                    " under this name, this one wants ", ToString(wanted.kind), kOnItsOwn));
}

absl::Status MemoryBooks::CheckPersistentTensors(const Program& program) const {
  for (const Buffer& buffer : program.buffers) {
    if (!IsPersistent(buffer)) continue;
    for (const PersistentTensor& tensor : TensorsOf(program, buffer)) RETURN_IF_ERROR(CheckKind(buffer.device, tensor));
  }
  return absl::OkStatus();
}

int64_t MemoryBooks::taken_bytes(int device) const {
  int64_t bytes = devices_[device].persistent_bytes;
  for (const Area& area : devices_[device].areas) bytes += area.bytes;
  return bytes;
}

absl::Status MemoryBooks::CheckLimit(int device, const DeviceMemory& wanted, int64_t fresh_bytes) const {
  const int64_t needed = taken_bytes(device) + fresh_bytes, others = needed - wanted.total_bytes();
  if (limit_bytes_ == 0 || needed <= limit_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("device ", device, " needs ", needed, " bytes (step buffers ", wanted.step_arena_bytes,
                   ", persistent buffers ", wanted.persistent_bytes, ", workspaces ", wanted.workspace_bytes,
                   ", other Programs ", others, "), its limit is ", limit_bytes_, "; use a smaller batch or more devices"));
}

const MemoryBooks::Area& MemoryBooks::AreaOf(int device, int area) const {
  static const Area kNone;
  const std::vector<Area>& areas = devices_[device].areas;
  return area < static_cast<int>(areas.size()) ? areas[area] : kNone;
}

// The old memory goes first, so that both are never held. Where there is no room for the new one, the old size is taken
// again for those who use it.
absl::Status MemoryBooks::Grow(int device, int area, int64_t bytes) {
  std::vector<Area>& areas = devices_[device].areas;
  if (static_cast<int>(areas.size()) <= area) areas.resize(area + 1);
  const int64_t bytes_before = areas[area].bytes;
  areas[area] = {};
  absl::StatusOr<Arena> memory = allocate_(device, bytes);
  if (memory.ok()) {
    areas[area] = {bytes, *std::move(memory)};
    return absl::OkStatus();
  }
  absl::StatusOr<Arena> again = allocate_(device, bytes_before);
  if (again.ok()) areas[area] = {bytes_before, *std::move(again)};
  return WithContext(memory.status(),
                     absl::StrCat(area == ProgramMemory::kStepArea ? "step buffers" : "workspace", " of device ", device));
}

absl::Status MemoryBooks::Reserve(ProgramMemory& user) {
  const std::vector<ProgramMemory*> others = users_;
  users_.push_back(&user);
  absl::Status status;
  bool any_moved = false;
  for (int d = 0; d < static_cast<int>(user.area_bytes_.size()); ++d) {
    for (int a = 0; a < static_cast<int>(user.area_bytes_[d].size()); ++a) {
      const int64_t wanted = user.area_bytes_[d][a], held = AreaOf(d, a).bytes;
      if (!status.ok() || wanted <= held) continue;
      any_moved = any_moved || held > 0;
      status = Grow(d, a, wanted);
    }
  }
  for (ProgramMemory* other : others) {
    if (any_moved && other->moved_) other->moved_(other->CheckReserved());
  }
  return status;
}

void MemoryBooks::Leave(ProgramMemory& user) {
  if (has_turn_ == &user) has_turn_ = nullptr;
  if (std::erase(users_, &user) == 0 || !users_.empty()) return;
  for (Device& device : devices_) device.areas.clear();
}

absl::StatusOr<char*> MemoryBooks::FindPersistent(int device, const std::vector<PersistentTensor>& tensors,
                                                  int64_t bytes) const {
  const absl::flat_hash_map<std::string, HeldTensor>& all = devices_[device].persistent;
  const auto where = [&](const PersistentTensor& tensor) {
    return absl::StrCat("persistent tensor ", tensor.name, " of device ", device, ": ");
  };
  const auto first = all.find(tensors.front().name);
  for (const PersistentTensor& tensor : tensors) {
    RETURN_IF_ERROR(CheckKind(device, tensor));
    const auto held = all.find(tensor.name);
    if (held == all.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          where(tensor), "the Programs on this backend hold other tensors of its bucket, and not this one", kOnItsOwn));
    }
    if (held->second.memory != first->second.memory || held->second.data != first->second.data + tensor.begin) {
      return absl::FailedPreconditionError(absl::StrCat(where(tensor), "the bucket of this Program wants it ", tensor.begin,
                                                        " bytes behind ", tensors.front().name,
                                                        ", another Program on this backend holds it elsewhere", kOnItsOwn));
    }
    if (held->second.bytes != tensor.bytes) {
      return absl::FailedPreconditionError(absl::StrCat(where(tensor), "another Program on this backend holds it in ",
                                                        held->second.bytes, " bytes, the layout of this one takes ",
                                                        tensor.bytes, kOnItsOwn));
    }
  }
  const PersistentTensor& last = tensors.back();
  const int64_t room = all.at(last.name).room, wanted = bytes - last.begin;
  if (wanted <= room) return first->second.data;
  return absl::FailedPreconditionError(absl::StrCat(where(last), "another Program on this backend holds it with room for ",
                                                    room, " bytes before the next tensor, the bucket of this one takes ",
                                                    wanted, kOnItsOwn));
}

void MemoryBooks::HoldPersistent(int device, Arena memory, const std::vector<PersistentRoot>& roots) {
  Device& on = devices_[device];
  char* data = memory.get();
  for (const PersistentRoot& root : roots) {
    for (size_t t = 0; t < root.tensors.size(); ++t) {
      const PersistentTensor& tensor = root.tensors[t];
      const bool is_whole = tensor.kind.held_parts == 0, is_last = t + 1 == root.tensors.size();
      const int64_t end = is_whole && !is_last ? root.tensors[t + 1].begin : root.bytes;
      on.persistent[tensor.name] = {tensor.kind, on.persistent_memory.size(), data + tensor.begin, tensor.bytes,
                                    end - tensor.begin};
    }
    data += root.bytes;
    on.persistent_bytes += root.bytes;
  }
  on.persistent_memory.push_back(std::move(memory));
}

ProgramMemory::ProgramMemory(const Program& program, MemoryBooks& books)
    : program_(program), books_(books), area_bytes_(program.device_count), persistent_(program.buffers.size(), kNowhere) {}

ProgramMemory::~ProgramMemory() { books_.Leave(*this); }

void ProgramMemory::Place(const std::vector<int64_t>& root_bytes, const std::vector<BucketLayout>& buckets,
                          int64_t alignment) {
  root_bytes_ = root_bytes;
  persistent_bytes_.assign(program_.device_count, 0);
  persistent_tensors_.resize(program_.buffers.size());
  for (const Buffer& buffer : program_.buffers) {
    if (!IsPersistent(buffer)) continue;
    root_bytes_[buffer.id.value] = program::RoundUp(root_bytes[buffer.id.value], alignment);  // as in a bucket
    persistent_bytes_[buffer.device] += root_bytes_[buffer.id.value];
    const BucketLayout& bucket = buckets[buffer.id.value];
    std::vector<PersistentTensor>& tensors = persistent_tensors_[buffer.id.value] = TensorsOf(program_, buffer);
    for (size_t t = 0; t < tensors.size(); ++t) {
      tensors[t].bytes = root_bytes[buffer.id.value];
      if (tensors[t].kind.held_parts > 0 || bucket.member_begin.empty()) continue;
      tensors[t].begin = bucket.member_begin[t];
      tensors[t].bytes = bucket.member_bytes[t];
    }
  }
  map_ = program::PlaceBuffers(
      program_, [&](const Buffer& buffer) { return root_bytes_[buffer.id.value]; }, alignment);
  for (int d = 0; d < program_.device_count; ++d) Want(d, kStepArea, map_.step_bytes[d]);
}

void ProgramMemory::WantWorkspace(int device, int number, int64_t bytes) { Want(device, AreaOfWorkspace(number), bytes); }

void ProgramMemory::Want(int device, int area, int64_t bytes) {
  std::vector<int64_t>& areas = area_bytes_[device];
  if (static_cast<int>(areas.size()) <= area) areas.resize(area + 1);
  areas[area] = std::max(areas[area], bytes);
}

bool ProgramMemory::TakeTurn() {
  const ProgramMemory* before = std::exchange(books_.has_turn_, this);
  return before != this;
}

DeviceMemory ProgramMemory::of(int device) const {
  DeviceMemory memory{.step_arena_bytes = map_.step_bytes[device], .persistent_bytes = persistent_bytes_[device]};
  for (size_t a = AreaOfWorkspace(0); a < area_bytes_[device].size(); ++a) memory.workspace_bytes += area_bytes_[device][a];
  return memory;
}

std::vector<DeviceMemory> ProgramMemory::OfDevices() const {
  std::vector<DeviceMemory> memory;
  for (int d = 0; d < program_.device_count; ++d) memory.push_back(of(d));
  return memory;
}

char* ProgramMemory::AddressOf(int device, int area) const {
  char* memory = is_taken_ ? books_.AreaOf(device, area).memory.get() : nullptr;
  return memory != nullptr ? memory : kNowhere;
}

char* ProgramMemory::BaseOf(BufferId buffer, int slot) const {
  const Buffer& root = program_.buffer(program::RootOf(program_, buffer));
  if (IsPersistent(root)) return persistent_[root.id.value];
  const int64_t of_slot = root.slots > 1 ? slot * (map_.size[root.id.value] / root.slots) : 0;
  return AddressOf(root.device, kStepArea) + map_.offset[root.id.value] + of_slot;
}

char* ProgramMemory::workspace(int device, int number) const { return AddressOf(device, AreaOfWorkspace(number)); }

absl::Status ProgramMemory::CheckLimits() const {
  std::vector<int64_t> fresh_bytes(program_.device_count, 0);
  for (const Buffer& buffer : program_.buffers) {
    if (IsPersistent(buffer) && IsFresh(buffer)) fresh_bytes[buffer.device] += root_bytes_[buffer.id.value];
  }
  for (int d = 0; d < program_.device_count; ++d) {
    for (int a = 0; a < static_cast<int>(area_bytes_[d].size()); ++a) {
      fresh_bytes[d] += std::max<int64_t>(area_bytes_[d][a] - books_.AreaOf(d, a).bytes, 0);
    }
    RETURN_IF_ERROR(books_.CheckLimit(d, of(d), fresh_bytes[d]));
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::CheckReserved() const {
  for (int d = 0; d < program_.device_count; ++d) {
    for (int a = 0; a < static_cast<int>(area_bytes_[d].size()); ++a) {
      if (books_.AreaOf(d, a).bytes >= area_bytes_[d][a]) continue;
      return absl::ResourceExhaustedError(absl::StrCat("device ", d,
                                                       ": memory that was given up for a larger Program could ",
                                                       "not be taken again; load this Program anew"));
    }
  }
  return absl::OkStatus();
}

bool ProgramMemory::IsFresh(const Buffer& buffer) const {
  const std::vector<PersistentTensor>& tensors = persistent_tensors_[buffer.id.value];
  return std::none_of(tensors.begin(), tensors.end(),
                      [&](const PersistentTensor& tensor) { return books_.HoldsPersistent(buffer.device, tensor.name); });
}

std::vector<std::vector<BufferId>> ProgramMemory::FreshMemories() const {
  std::vector<int> state_kind(program_.buffers.size(), -1);  // by buffer: of a bucket's members
  for (const program::Parameter& parameter : program_.parameters) {
    for (size_t k = 0; k < parameter.state.size(); ++k) {
      for (const program::Piece& piece : parameter.state[k]) {
        state_kind[program::RootOf(program_, piece.buffer).value] = static_cast<int>(k);
      }
    }
  }
  std::vector<std::vector<BufferId>> memories;
  std::map<std::pair<int, int>, size_t> shared;  // by device and kind: which memory
  for (const Buffer& buffer : program_.buffers) {
    if (!IsPersistent(buffer) || !IsFresh(buffer)) continue;
    const int kind = state_kind[buffer.id.value];
    const bool shares = kind >= 0 && std::holds_alternative<program::Bucket>(buffer.storage);
    const size_t memory =
        shares ? shared.try_emplace({buffer.device, kind}, memories.size()).first->second : memories.size();
    if (memory == memories.size()) memories.emplace_back();
    memories[memory].push_back(buffer.id);
  }
  return memories;
}

absl::Status ProgramMemory::FindPersistent() {
  for (const Buffer& buffer : program_.buffers) {
    if (!IsPersistent(buffer) || IsFresh(buffer)) continue;
    ASSIGN_OR_RETURN(persistent_[buffer.id.value], books_.FindPersistent(buffer.device, persistent_tensors_[buffer.id.value],
                                                                         root_bytes_[buffer.id.value]));
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::TakePersistent() {
  const std::vector<std::vector<BufferId>> memories = FreshMemories();
  std::vector<Arena> taken;
  for (const std::vector<BufferId>& buffers : memories) {
    int64_t bytes = 0;
    for (BufferId id : buffers) bytes += root_bytes_[id.value];
    const Buffer& first = program_.buffer(buffers.front());
    absl::StatusOr<Arena> memory = books_.allocate_(first.device, bytes);
    if (!memory.ok()) {
      return WithContext(memory.status(), absl::StrCat("persistent buffer ", first.name, " of device ", first.device));
    }
    char* data = memory->get();
    for (BufferId id : buffers) {
      persistent_[id.value] = data;
      data += root_bytes_[id.value];
    }
    taken.push_back(*std::move(memory));
  }
  for (size_t m = 0; m < memories.size(); ++m) {
    std::vector<MemoryBooks::PersistentRoot> roots;
    for (BufferId id : memories[m]) roots.push_back({persistent_tensors_[id.value], root_bytes_[id.value]});
    books_.HoldPersistent(program_.buffer(memories[m].front()).device, std::move(taken[m]), roots);
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::Take() {
  RETURN_IF_ERROR(FindPersistent());
  RETURN_IF_ERROR(CheckLimits());
  RETURN_IF_ERROR(books_.Reserve(*this));
  RETURN_IF_ERROR(TakePersistent());
  is_taken_ = true;
  return absl::OkStatus();
}

}  // namespace colonnade::engine
