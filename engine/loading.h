// Getting a Program into the memory of a backend's devices, whatever memory is there.
//
// A backend chooses layouts and kernels. From then on its Programs need bytes, and every backend places, limits and shares
// these alike: MemoryBooks for the devices of a backend, ProgramMemory for each loaded Program. Thread rule: that of
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
#include "engine/layouts.h"
#include "program/memory.h"
#include "program/program.h"

namespace colonnade::engine {

// Returns InvalidArgument where `program` is for more devices than the backend has.
absl::Status CheckDeviceCount(const program::Program& program, int devices);

// Returns InvalidArgument where `buffer` has no logical content, or another number of bytes: for ReadBytes and WriteBytes.
absl::Status CheckLogicalAccess(const program::Program& program, program::BufferId buffer, size_t bytes);

// Returns a slot without memory, for a Program that is prepared and never run.
HostSlot SlotWithoutMemory(const program::Program& program);

// Memory of a device, freed with its owner.
using Arena = std::unique_ptr<char, std::function<void(char*)>>;
// Gives zero-filled memory of a device; null for 0 bytes. ResourceExhausted if the device has not so much.
using Allocate = std::function<absl::StatusOr<Arena>(int device, int64_t bytes)>;

class ProgramMemory;

// A persistent tensor, as whatever Program names it: a root, or a member of a bucket.
struct PersistentTensor {
  // What the tensor is; for a bucket that its device holds in part, also what the bucket is.
  struct Kind {
    program::DType dtype = program::DType::kF32;
    program::Shape shape;
    int64_t parts = 0, first_part = 0, held_parts = 0;  // 0: the device holds all of the tensor
    std::vector<std::string> members;                   // names and shapes
    bool operator==(const Kind&) const = default;
  };
  std::string name;
  Kind kind;
  int64_t begin = 0, bytes = 0;  // in its root; for a bucket that is held in part, all that is held
};

// What the Programs of one backend hold on its devices: persistent tensors, which they share by name, and areas, which they
// use in turn: one for step buffers, others for workspaces. An area has the size of the largest Program's, and nothing in it
// outlasts a step. It is held until no Program is loaded.
//
// Memory belongs to the tensors, not to the buckets in which they are reduced. Tensors of one kind of state that the same
// Program brings lie one after the other in the order of its buckets, so that another Program may find them in other
// buckets.
class MemoryBooks {
 public:
  MemoryBooks() = default;
  // `limit_bytes` holds for each device; 0: no limit. The books keep `allocate`; what it uses must outlive them.
  MemoryBooks(int devices, int64_t limit_bytes, Allocate allocate);

  // Returns FailedPrecondition where a persistent tensor of `program` was loaded before as something else. To be called
  // before layouts are chosen: those of persistent tensors depend on what is held.
  absl::Status CheckPersistentTensors(const program::Program& program) const;

  // Returns the bytes of `device` that are taken.
  int64_t taken_bytes(int device) const;

  bool HoldsPersistent(int device, const std::string& tensor) const { return devices_[device].persistent.contains(tensor); }

 private:
  struct HeldTensor {
    PersistentTensor::Kind kind;
    size_t memory = 0;  // index of persistent_memory
    char* data = nullptr;
    int64_t bytes = 0, room = 0;  // room: to the next tensor, or to the end of its root
  };
  struct Area {
    int64_t bytes = 0;
    Arena memory;
  };
  struct Device {
    absl::flat_hash_map<std::string, HeldTensor> persistent;
    std::vector<Arena> persistent_memory;
    int64_t persistent_bytes = 0;
    std::vector<Area> areas;
  };

  absl::Status CheckKind(int device, const PersistentTensor& wanted) const;

  // For ProgramMemory.
  friend class ProgramMemory;
  // Returns ResourceExhausted, with what needs how much, where the limit of `device` does not admit `fresh_bytes` more for a
  // Program of `wanted` bytes.
  absl::Status CheckLimit(int device, const DeviceMemory& wanted, int64_t fresh_bytes) const;
  // Returns an area; its memory is null where none was taken.
  const Area& AreaOf(int device, int area) const;
  // Returns the memory of a root or bucket with these tensors, of which one at least is held. FailedPrecondition where they
  // are held as something else, or lie differently.
  absl::StatusOr<char*> FindPersistent(int device, const std::vector<PersistentTensor>& tensors, int64_t bytes) const;
  // Holds from now on the roots and buckets that lie in `memory`, one behind the other.
  struct PersistentRoot {
    std::vector<PersistentTensor> tensors;
    int64_t bytes = 0;
  };
  void HoldPersistent(int device, Arena memory, const std::vector<PersistentRoot>& roots);
  // Makes areas at least as large as `user` wants, and tells all other users of areas that have moved.
  absl::Status Reserve(ProgramMemory& user);
  absl::Status Grow(int device, int area, int64_t bytes);
  void Leave(ProgramMemory& user);

  int64_t limit_bytes_ = 0;
  Allocate allocate_;
  std::vector<Device> devices_;
  std::vector<ProgramMemory*> users_;
  const ProgramMemory* has_turn_ = nullptr;
};

// The memory of one loaded Program: its step buffers and workspaces, in areas that it shares with other Programs, and its
// persistent buffers. Until Take, addresses count from a placeholder that nobody may dereference.
class ProgramMemory {
 public:
  // Both must outlive the result.
  ProgramMemory(const program::Program& program, MemoryBooks& books);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Places buffers of `root_bytes` and buckets of `buckets` (by buffer) at multiples of `alignment`.
  void Place(const std::vector<int64_t>& root_bytes, const std::vector<BucketLayout>& buckets, int64_t alignment);
  // Asks for a workspace. Workspace `number` (a small number) of `device` has the largest size that was asked for.
  void WantWorkspace(int device, int number, int64_t bytes);
  // Takes what was asked for. Areas that other Programs use may move. ResourceExhausted where the limit of a device does not
  // admit it or a device has not so much: persistent tensors are then held as before, and areas at least as large.
  // FailedPrecondition where a persistent tensor is held as something else or elsewhere.
  // REQUIRES: nothing runs on the devices.
  absl::Status Take();
  // Calls `moved` whenever areas have moved after Take: with an error where they could not be taken again.
  void OnMove(std::function<void(const absl::Status&)> moved) { moved_ = std::move(moved); }

  // Whether steps of another Program may have been launched since the last call, so that steps launched now must come behind
  // them.
  bool TakeTurn();

  DeviceMemory of(int device) const;
  std::vector<DeviceMemory> OfDevices() const;
  char* BaseOf(program::BufferId buffer, int slot = 0) const;  // the base of its root; `slot`: of a buffer that has two
  char* workspace(int device, int number) const;

 private:
  friend class MemoryBooks;
  static constexpr int kStepArea = 0;
  static constexpr int AreaOfWorkspace(int number) { return number + 1; }

  void Want(int device, int area, int64_t bytes);
  char* AddressOf(int device, int area) const;
  absl::Status CheckLimits() const;
  // Returns ResourceExhausted unless the areas are as large as this Program wants them.
  absl::Status CheckReserved() const;
  absl::Status FindPersistent();  // finds the persistent tensors that are held
  absl::Status TakePersistent();  // takes memory for those that are not
  // Whether no tensor of a persistent root or bucket is held.
  bool IsFresh(const program::Buffer& buffer) const;
  // Returns the persistent roots and buckets that are not held yet, in the order of the buffers; those of one list lie in
  // one memory.
  std::vector<std::vector<program::BufferId>> FreshMemories() const;

  const program::Program& program_;
  MemoryBooks& books_;
  std::vector<int64_t> root_bytes_;                                // by buffer
  std::vector<int64_t> persistent_bytes_;                          // by device
  std::vector<std::vector<PersistentTensor>> persistent_tensors_;  // by buffer: of persistent roots and buckets
  program::MemoryMap map_;
  std::vector<std::vector<int64_t>> area_bytes_;  // by device and area
  std::vector<char*> persistent_;                 // by buffer: of persistent roots and buckets
  bool is_taken_ = false;
  std::function<void(const absl::Status&)> moved_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_LOADING_H_
