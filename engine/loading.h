// Getting a Program into the memory of a backend's devices, whatever memory is there.
//
// A backend chooses layouts and kernels. From then on its Programs need bytes, and every backend places, charges, limits and
// shares these alike: MemoryBooks for the devices of a backend, ProgramMemory for each loaded Program. Thread rule: that of
// engine::Backend.
#ifndef COLONNADE_ENGINE_LOADING_H_
#define COLONNADE_ENGINE_LOADING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "program/memory.h"
#include "program/program.h"

namespace colonnade::engine {

// InvalidArgument where `program` is for more devices than the backend has.
absl::Status CheckDeviceCount(const program::Program& program, int devices);

// InvalidArgument where `buffer` has no logical content, or another number of bytes: for ReadBytes and WriteBytes.
absl::Status CheckLogicalAccess(const program::Program& program, program::BufferId buffer, size_t bytes);

// A slot without memory, for a Program that is prepared and never run.
HostSlot SlotWithoutMemory(const program::Program& program);

// Memory of a device, freed with its owner.
using Arena = std::unique_ptr<char, std::function<void(char*)>>;
// Gives zero-filled memory of a device; null for 0 bytes. ResourceExhausted if the device has not so much.
using Allocate = std::function<absl::StatusOr<Arena>(int device, int64_t bytes)>;

// What the Programs of one backend hold on its devices: the bytes that they are charged for, and the persistent buffers that
// they share, by name.
class MemoryBooks {
 public:
  MemoryBooks() = default;
  // With a limit for each device; 0: none. `allocate` must outlive the books.
  MemoryBooks(int devices, int64_t limit_bytes, Allocate allocate);

  // FailedPrecondition where a persistent buffer of `program` was loaded before as something else. For before layouts are
  // chosen: those of persistent buffers depend on what is held.
  absl::Status CheckPersistentBuffers(const program::Program& program) const;

  // ResourceExhausted, with what needs how much, where the limit of `device` does not admit a Program of `wanted` bytes
  // whose persistent buffers of `fresh_persistent_bytes` are not held yet.
  absl::Status CheckLimit(int device, const DeviceMemory& wanted, int64_t fresh_persistent_bytes) const;

  // Memory of `device` that its owner has charged.
  absl::StatusOr<Arena> Take(int device, int64_t bytes) const { return allocate_(device, bytes); }
  void Charge(int device, int64_t bytes) { devices_[device].charged_bytes += bytes; }
  void Refund(int device, int64_t bytes) { devices_[device].charged_bytes -= bytes; }
  int64_t charged_bytes(int device) const { return devices_[device].charged_bytes; }

  bool HoldsPersistent(const program::Buffer& buffer) const {
    return devices_[buffer.device].persistent.contains(buffer.name);
  }
  // The memory of a persistent root or bucket, taken and charged where it is not held yet. FailedPrecondition where it is
  // held as something else.
  absl::StatusOr<char*> TakePersistent(const program::Program& program, const program::Buffer& buffer, int64_t bytes);
  // Gives back what TakePersistent has taken for a Program whose loading failed.
  void ReleasePersistent(const program::Buffer& buffer);

 private:
  // What a persistent buffer is, whoever loads it.
  struct Kind {
    program::DType dtype = program::DType::kF32;
    program::Shape shape;
    int64_t first_part = 0, held_parts = 0;     // of a bucket
    std::vector<program::Shape> member_shapes;  // of a bucket
    bool operator==(const Kind&) const = default;
  };
  struct PersistentBuffer {
    Kind kind;
    int64_t bytes = 0;
    Arena memory;
  };
  struct Device {
    absl::flat_hash_map<std::string, PersistentBuffer> persistent;
    int64_t charged_bytes = 0;
  };

  static Kind KindOf(const program::Program& program, const program::Buffer& buffer);
  static std::string ToString(const Kind& kind);
  static absl::Status CheckKind(const PersistentBuffer& held, const program::Buffer& buffer, const Kind& wanted);

  int64_t limit_bytes_ = 0;
  Allocate allocate_;
  std::vector<Device> devices_;
};

// The memory of one loaded Program: its step buffers, its workspaces, and its share in the persistent buffers. Until Take,
// addresses are counted from a place that nobody may follow.
class ProgramMemory {
 public:
  // Both must outlive the result.
  ProgramMemory(const program::Program& program, MemoryBooks& books);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Places buffers of `root_bytes` (by buffer) at multiples of `alignment`.
  void Place(const std::vector<int64_t>& root_bytes, int64_t alignment);
  // Asks for a workspace: `area` of `device`, a small number, has the largest size that was asked for.
  void WantWorkspace(int device, int area, int64_t bytes);
  // Takes what was asked for. ResourceExhausted where the limit of a device does not admit it or a device has not so much:
  // what the books charged and held is then, or when this object goes, as it was.
  absl::Status Take();

  DeviceMemory of(int device) const;
  std::vector<DeviceMemory> OfDevices() const;
  char* BaseOf(program::BufferId buffer) const { return base_[program::RootOf(program_, buffer).value]; }
  char* workspace(int device, int area) const;

 private:
  struct Workspace {
    int64_t bytes = 0;
    Arena memory;
  };
  absl::Status CheckLimits() const;
  absl::Status TakeOf(int device);
  absl::Status TakePersistentBuffers();

  const program::Program& program_;
  MemoryBooks& books_;
  std::vector<int64_t> root_bytes_;  // by buffer
  program::MemoryMap map_;
  std::vector<std::vector<Workspace>> workspaces_;  // by device and area
  std::vector<Arena> step_arenas_;                  // by device
  std::vector<char*> base_;                         // by buffer: of roots and buckets
  std::vector<int64_t> charged_bytes_;              // by device, as far as Take came
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_LOADING_H_
