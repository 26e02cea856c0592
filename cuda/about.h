// What a bug report needs to know of CUDA, its libraries and the GPUs. Nothing is allocated on a GPU. Any thread.
#ifndef COLONNADE_CUDA_ABOUT_H_
#define COLONNADE_CUDA_ABOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace colonnade::cuda {

struct GpuFacts {
  std::string name, compute_capability, pci;  // "NVIDIA H100", "9.0", "0000:0a:00.0"
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
};

// How one GPU reaches the memory of another.
struct PeerAccess {
  bool possible = false;
  bool atomics = false;  // native ones, which NVLink has and PCI Express between GPUs has not
  int rank = 0;          // CUDA's order of links by speed, within this machine: smaller is faster
};

struct CudaFacts {
  std::string runtime, cudnn, cublas;
  std::string nccl;       // empty: there is none
  std::string no_nccl;    // why, then
  std::string supported;  // the newest CUDA that the driver runs; empty: no driver
  absl::Status status;    // why there is no GPU, in the runtime's own words
  std::vector<GpuFacts> gpus;
  std::vector<std::vector<PeerAccess>> peers;  // [from][to]
};

// Returns whether `folder` has the file of a GPU, as NVIDIA's driver makes them: nvidia0 and so on, or dxg under WSL.
bool HasGpuFile(const std::string& folder = "/dev");

// Where the driver module (driver/) cannot be loaded: FailedPrecondition if there is a GPU's file, else Unavailable.
absl::StatusOr<CudaFacts> AboutCuda();

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ABOUT_H_
