#include "engine/loading.h"

#include <algorithm>
#include <cstdint>
#include <utility>

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

int64_t MemoryBooks::held_bytes(int device) const {
  int64_t bytes = 0;
  for (const auto& [name, buffer] : devices_[device].persistent) bytes += buffer.bytes;
  for (const Area& area : devices_[device].areas) bytes += area.bytes;
  return bytes;
}

absl::Status MemoryBooks::CheckLimit(int device, const DeviceMemory& wanted, int64_t fresh_bytes) const {
  const int64_t needed = held_bytes(device) + fresh_bytes, others = needed - wanted.total_bytes();
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

absl::Status MemoryBooks::MakeRoom(ProgramMemory& user) {
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
    if (any_moved && other->moved_) other->moved_(other->CheckRoom());
  }
  return status;
}

void MemoryBooks::Leave(ProgramMemory& user) {
  if (has_turn_ == &user) has_turn_ = nullptr;
  if (std::erase(users_, &user) == 0 || !users_.empty()) return;
  for (Device& device : devices_) device.areas.clear();
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
  absl::StatusOr<Arena> memory = allocate_(buffer.device, bytes);
  if (!memory.ok()) {
    return WithContext(memory.status(), absl::StrCat("persistent buffer ", buffer.name, " of device ", buffer.device));
  }
  PersistentBuffer& held = device.persistent[buffer.name];
  held = {kind, bytes, *std::move(memory)};
  return held.memory.get();
}

void MemoryBooks::ReleasePersistent(const Buffer& buffer) { devices_[buffer.device].persistent.erase(buffer.name); }

ProgramMemory::ProgramMemory(const Program& program, MemoryBooks& books)
    : program_(program), books_(books), area_bytes_(program.device_count), persistent_(program.buffers.size(), kNowhere) {}

ProgramMemory::~ProgramMemory() { books_.Leave(*this); }

void ProgramMemory::Place(const std::vector<int64_t>& root_bytes, int64_t alignment) {
  root_bytes_ = root_bytes;
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
  DeviceMemory memory{.step_arena_bytes = map_.step_bytes[device]};
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.device == device && IsPersistent(buffer)) memory.persistent_bytes += root_bytes_[buffer.id.value];
  }
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

char* ProgramMemory::BaseOf(BufferId buffer) const {
  const Buffer& root = program_.buffer(program::RootOf(program_, buffer));
  if (IsPersistent(root)) return persistent_[root.id.value];
  return AddressOf(root.device, kStepArea) + map_.offset[root.id.value];
}

char* ProgramMemory::workspace(int device, int number) const { return AddressOf(device, AreaOfWorkspace(number)); }

absl::Status ProgramMemory::CheckLimits() const {
  for (int d = 0; d < program_.device_count; ++d) {
    int64_t fresh_bytes = 0;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.device != d || !IsPersistent(buffer) || books_.HoldsPersistent(buffer)) continue;
      fresh_bytes += root_bytes_[buffer.id.value];
    }
    for (int a = 0; a < static_cast<int>(area_bytes_[d].size()); ++a) {
      fresh_bytes += std::max<int64_t>(area_bytes_[d][a] - books_.AreaOf(d, a).bytes, 0);
    }
    RETURN_IF_ERROR(books_.CheckLimit(d, of(d), fresh_bytes));
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::CheckRoom() const {
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
    persistent_[buffer.id.value] = *base;
  }
  return absl::OkStatus();
}

absl::Status ProgramMemory::Take() {
  RETURN_IF_ERROR(CheckLimits());
  RETURN_IF_ERROR(books_.MakeRoom(*this));
  RETURN_IF_ERROR(TakePersistentBuffers());
  is_taken_ = true;
  return absl::OkStatus();
}

}  // namespace colonnade::engine
