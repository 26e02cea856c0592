// One device of the backend: its streams on a GPU; and what the backend is made of.
//
// Several devices may be on one GPU. Driven by the host thread of the backend.
#ifndef COLONNADE_CUDA_DEVICE_H_
#define COLONNADE_CUDA_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/backend.h"
#include "cuda/calls.h"
#include "engine/loading.h"
#include "program/program.h"

namespace colonnade::cuda {

struct Device {
  int gpu = 0;
  std::array<Stream, program::kLaneCount> streams;     // by lane
  std::array<Event, program::kLaneCount> passed = {};  // by lane: what Fence and Drain record

  const Stream& stream(program::Lane lane) const { return streams[static_cast<int>(lane)]; }
};

// Makes all that is enqueued on the device's lanes later begin after all that was enqueued on them before.
absl::Status Fence(Calls& calls, const Device& device);
// Blocks until all that was enqueued on the device has ended.
absl::Status Drain(Calls& calls, const Device& device);

// What a backend, and each Program that it has loaded, is made of.
struct Resources {
  Resources() = default;
  ~Resources();
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  std::shared_ptr<Calls> calls;
  std::vector<Device> devices;
  Precision precision = Precision::kF32;
  bool deterministic = false;
  bool times_tasks = false;
  Graphs graphs = Graphs::kOff;
  bool uses_nccl = false;    // where it serves
  std::string lack_of_nccl;  // why it is not used, where it was to be if found
  engine::MemoryBooks books;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_DEVICE_H_
