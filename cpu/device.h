// One virtual device: its lanes, and the persistent memory that all Programs loaded on it share.
//
// Driven by the host thread of the backend; lanes run on threads of their own.
#ifndef COLONNADE_CPU_DEVICE_H_
#define COLONNADE_CPU_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cpu/load/arena.h"
#include "cpu/load/layout.h"
#include "cpu/onednn.h"
#include "cpu/threads/queue.h"
#include "program/program.h"

namespace colonnade::cpu {

// Memory of a persistent root or bucket, found again by its name.
struct PersistentBuffer {
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  int64_t bytes = 0;
  int64_t first_part = 0;         // of a bucket
  std::vector<OpaqueDesc> descs;  // of a root, or of each member of a bucket
  Arena memory;
};

struct Device {
  struct LaneState {
    std::unique_ptr<Queue> queue;
    dnnl::stream stream;
    int threads = 1;
    int64_t reserved_commands = 0;
  };
  std::array<LaneState, program::kLaneCount> lanes;
  absl::flat_hash_map<std::string, PersistentBuffer> persistent;
  int64_t allocated_bytes = 0;  // of all loaded Programs and persistent buffers

  LaneState& lane(program::Lane which) { return lanes[static_cast<int>(which)]; }
};

// What a backend is made of.
struct Resources {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<std::unique_ptr<Device>> devices;
  bool reference_kernels = false;
  int64_t memory_limit_bytes = 0;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_DEVICE_H_
