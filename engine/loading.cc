#include "engine/loading.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/error_context.h"
#include "engine/layouts.h"
#include "program/status_macros.h"

namespace colonnade::engine {

using program::Buffer;
using program::BufferId;
using program::Program;

namespace {

// Stands for memory that has not been taken yet: addresses are counted from it, and none is followed.
char* const kNowhere = reinterpret_cast<char*>(uintptr_t{1} << 40);

bool IsPersistent(const Buffer& buffer) { return buffer.lifetime == program::Lifetime::kPersistent && HasMemory(buffer); }

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

MemoryBooks::Kind MemoryBooks::KindOf(const Program& program, const Buffer& buffer) {
  Kind kind{.dtype = buffer.dtype, .shape = buffer.shape};
  if (const auto* bucket = std::get_if<program::Bucket>(&buffer.storage)) {
    kind.first_part = bucket->first_part;
    kind.held_parts = bucket->held_parts;
    for (BufferId member : bucket->members) kind.member_shapes.push_back(program.buffer(member).shape);
  }
  return kind;
}

std::string MemoryBooks::ToString(const Kind& kind) {
  if (kind.held_parts == 0) return absl::StrCat(program::Name(kind.dtype), program::ToString(kind.shape));
  std::string text = absl::StrCat("parts [", kind.first_part, ", ", kind.first_part + kind.held_parts, ") of ",
                                  program::ToString(kind.shape), " of ", program::Name(kind.dtype));
  for (const program::Shape& shape : kind.member_shapes) absl::StrAppend(&text, " ", program::ToString(shape));
  return text;
}

absl::Status MemoryBooks::CheckKind(const PersistentBuffer& held, const Buffer& buffer, const Kind& wanted) {
  if (held.kind == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "persistent buffer ", buffer.name, " of device ", buffer.device, ": another Program on this backend holds ",
      ToString(held.kind), " under this name, this one wants ", ToString(wanted), "; load it on a backend of its own"));
}

absl::Status MemoryBooks::CheckPersistentBuffers(const Program& program) const {
  for (const Buffer& buffer : program.buffers) {
    if (!IsPersistent(buffer) || !HoldsPersistent(buffer)) continue;
    const PersistentBuffer& held = devices_[buffer.device].persistent.at(buffer.name);
    RETURN_IF_ERROR(CheckKind(held, buffer, KindOf(program, buffer)));
  }
  return absl::OkStatus();
}

absl::Status MemoryBooks::CheckLimit(int device, const DeviceMemory& wanted, int64_t fresh_persistent_bytes) const {
  const int64_t others = devices_[device].charged_bytes - (wanted.persistent_bytes - fresh_persistent_bytes);
  const int64_t needed = wanted.total_bytes() + others;
  if (limit_bytes_ == 0 || needed <= limit_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("device ", device, " needs ", needed, " bytes (step buffers ", wanted.step_arena_bytes,
                   ", persistent buffers ", wanted.persistent_bytes, ", workspaces ", wanted.workspace_bytes,
                   ", other Programs ", others, "), its limit is ", limit_bytes_, "; use a smaller batch or more devices"));
}

absl::StatusOr<char*> MemoryBooks::TakePersistent(const Program& program, const Buffer& buffer, int64_t bytes) {
  Device& device = devices_[buffer.device];
  const Kind kind = KindOf(program, buffer);
  if (const auto found = device.persistent.find(buffer.name); found != device.persistent.end()) {
    RETURN_IF_ERROR(CheckKind(found->second, buffer, kind));
    if (found->second.bytes == bytes) return found->second.memory.get();
    return absl::FailedPreconditionError(absl::StrCat(
        "persistent buffer ", buffer.name, " of device ", buffer.device, ": another Program on this backend holds it in ",
        found->second.bytes, " bytes, the layout of this one takes ", bytes, "; load it on a backend of its own"));
  }
  absl::StatusOr<Arena> memory = Take(buffer.device, bytes);
  if (!memory.ok()) {
    return WithContext(memory.status(), absl::StrCat("persistent buffer ", buffer.name, " of device ", buffer.device));
  }
  Charge(buffer.device, bytes);
  PersistentBuffer& held = device.persistent[buffer.name];
  held = {kind, bytes, *std::move(memory)};
  return held.memory.get();
}

void MemoryBooks::ReleasePersistent(const Buffer& buffer) {
  auto& persistent = devices_[buffer.device].persistent;
  const auto found = persistent.find(buffer.name);
  Refund(buffer.device, found->second.bytes);
  persistent.erase(found);
}

ProgramMemory::ProgramMemory(const Program& program, MemoryBooks& books)
    : program_(program), books_(books), workspaces_(program.device_count), base_(program.buffers.size(), kNowhere) {}

ProgramMemory::~ProgramMemory() {
  for (size_t d = 0; d < charged_bytes_.size(); ++d) books_.Refund(static_cast<int>(d), charged_bytes_[d]);
}

void ProgramMemory::Place(const std::vector<int64_t>& root_bytes, int64_t alignment) {
  root_bytes_ = root_bytes;
  map_ = program::PlaceBuffers(
      program_, [&](const Buffer& buffer) { return root_bytes_[buffer.id.value]; }, alignment);
}

void ProgramMemory::WantWorkspace(int device, int area, int64_t bytes) {
  std::vector<Workspace>& areas = workspaces_[device];
  if (static_cast<int>(areas.size()) <= area) areas.resize(area + 1);
  areas[area].bytes = std::max(areas[area].bytes, bytes);
}

DeviceMemory ProgramMemory::of(int device) const {
  DeviceMemory memory{.step_arena_bytes = map_.step_bytes[device]};
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device == device && IsPersistent(buffer)) memory.persistent_bytes += root_bytes_[buffer.id.value];
  }
  for (const Workspace& area : workspaces_[device]) memory.workspace_bytes += area.bytes;
  return memory;
}

std::vector<DeviceMemory> ProgramMemory::OfDevices() const {
  std::vector<DeviceMemory> memory;
  for (int d = 0; d < program_.device_count; ++d) memory.push_back(of(d));
  return memory;
}

char* ProgramMemory::workspace(int device, int area) const {
  const std::vector<Workspace>& areas = workspaces_[device];
  const bool is_taken = area < static_cast<int>(areas.size()) && areas[area].memory != nullptr;
  return is_taken ? areas[area].memory.get() : kNowhere;
}

absl::Status ProgramMemory::CheckLimits() const {
  for (int d = 0; d < program_.device_count; ++d) {
    int64_t fresh_persistent_bytes = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.device != d || !IsPersistent(buffer) || books_.HoldsPersistent(buffer)) continue;
      fresh_persistent_bytes += root_bytes_[buffer.id.value];
    }
    RETURN_IF_ERROR(books_.CheckLimit(d, of(d), fresh_persistent_bytes));
  }
  return absl::OkStatus();
}

// Charged first: whatever fails from here on, what is refunded has been charged.
absl::Status ProgramMemory::TakeOf(int device) {
  const DeviceMemory memory = of(device);
  charged_bytes_.push_back(memory.step_arena_bytes + memory.workspace_bytes);
  books_.Charge(device, charged_bytes_.back());
  absl::StatusOr<Arena> arena = books_.Take(device, memory.step_arena_bytes);
  if (!arena.ok()) return WithContext(arena.status(), absl::StrCat("step buffers of device ", device));
  step_arenas_.push_back(*std::move(arena));
  for (Workspace& area : workspaces_[device]) {
    absl::StatusOr<Arena> workspace = books_.Take(device, area.bytes);
    if (!workspace.ok()) return WithContext(workspace.status(), absl::StrCat("workspace of device ", device));
    area.memory = *std::move(workspace);
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::TakePersistentBuffers() {
  std::vector<const Buffer*> fresh;
  for (const Buffer& buffer : program_.buffers) {
    if (!IsPersistent(buffer)) continue;
    if (!books_.HoldsPersistent(buffer)) fresh.push_back(&buffer);
    const absl::StatusOr<char*> base = books_.TakePersistent(program_, buffer, root_bytes_[buffer.id.value]);
    if (!base.ok()) {
      for (const Buffer* taken : fresh) {
        if (books_.HoldsPersistent(*taken)) books_.ReleasePersistent(*taken);
      }
      return base.status();
    }
    base_[buffer.id.value] = *base;
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::Take() {
  RETURN_IF_ERROR(CheckLimits());
  for (int d = 0; d < program_.device_count; ++d) RETURN_IF_ERROR(TakeOf(d));
  for (const Buffer& buffer : program_.buffers) {
    if (IsPersistent(buffer) || !HasMemory(buffer)) continue;
    base_[buffer.id.value] = step_arenas_[buffer.device].get() + map_.offset[buffer.id.value];
  }
  return TakePersistentBuffers();
}

}  // namespace colonnade::engine
