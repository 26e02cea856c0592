// One device of the backend: its streams on a GPU, and the persistent memory that all Programs loaded on it share.
//
// Several devices may be on one GPU. Driven by the host thread of the backend.
#ifndef COLONNADE_CUDA_DEVICE_H_
#define COLONNADE_CUDA_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cuda/calls.h"
#include "cuda/load/arena.h"
#include "program/program.h"

namespace colonnade::cuda {

// Memory of a persistent root or bucket, found again by its name.
struct PersistentBuffer {
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  int64_t bytes = 0;
  int64_t first_part = 0;  // of a bucket
  Arena memory;
};

struct Device {
  int gpu = 0;
  std::array<Stream, program::kLaneCount> streams;
  Stream input;  // copies from the host into landings, ahead of the copy lane
  absl::flat_hash_map<std::string, PersistentBuffer> persistent;
  int64_t allocated_bytes = 0;  // of all loaded Programs and persistent buffers

  std::array<Stream, program::kLaneCount + 1> AllStreams() const { return {streams[0], streams[1], streams[2], input}; }
  const Stream& stream(program::Lane lane) const { return streams[static_cast<int>(lane)]; }
};

// What a backend is made of.
struct Resources {
  std::unique_ptr<Calls> calls;
  std::vector<Device> devices;
  Precision precision = Precision::kF32;
  bool deterministic = false;
  bool times_tasks = false;
  bool uses_graphs = false;
  bool uses_nccl = false;          // where it serves
  int64_t memory_limit_bytes = 0;  // of each device; 0: none
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_DEVICE_H_
