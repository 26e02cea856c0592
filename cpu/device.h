// One virtual device: its lanes, and the layouts of the persistent tensors that all Programs loaded on it share.
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
#include "cpu/backend.h"
#include "cpu/load/layout.h"
#include "cpu/onednn.h"
#include "cpu/threads/fence.h"
#include "cpu/threads/queue.h"
#include "engine/loading.h"
#include "program/program.h"

namespace colonnade::cpu {

struct Device {
  struct LaneState {
    std::unique_ptr<Queue> queue;
    dnnl::stream stream;
    int threads = 1;
    int64_t reserved_commands = 0;
  };
  LaneFence fence{program::kLaneCount};  // outlives the lanes
  std::array<LaneState, program::kLaneCount> lanes;
  absl::flat_hash_map<std::string, OpaqueDesc> persistent_layouts;  // of the persistent tensors that are held, by name

  LaneState& lane(program::Lane which) { return lanes[static_cast<int>(which)]; }
  void Fence() {
    for (LaneState& lane : lanes) lane.queue->Push({.handler = &fence});
  }
  // Blocks until all that was pushed has ended.
  void Drain() {
    for (LaneState& lane : lanes) lane.queue->Call([] {});
  }
};

// What a backend is made of.
struct Resources {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Queue> reader;  // one thread, which reads persistent buffers while the devices are at work
  CpuOptions::Kernels kernels = CpuOptions::Kernels::kOneDnn;
  engine::MemoryBooks books;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_DEVICE_H_
