// The CUDA backend: N devices on one or more GPUs, each with a stream for each of its four lanes.
//
// The host enqueues a step without blocking; memory, layouts and calls of a loaded Program are cuda/load/loaded.h's.
// Everything but driver/ is built, and tested, without CUDA. Thread rule: that of engine::Backend.
#ifndef COLONNADE_CUDA_BACKEND_H_
#define COLONNADE_CUDA_BACKEND_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "engine/backend.h"

namespace colonnade::cuda {

enum class Collectives {
  kAuto,  // NCCL where it is found and serves (NcclServes), else copies between peers
  kNccl,  // NCCL where it serves; devices must be on GPUs of their own
  kPeer,  // copies between peers, sums in the order of the members
};

// Whether steps, from the third on, are CUDA graphs. Steps with collectives of NCCL never are, nor are those whose tasks are
// timed.
enum class Graphs {
  kOff,
  kAuto,  // where they can be captured
  // Where they cannot, Load or the step fails: FailedPrecondition. Only those beside which state is copied run task by task.
  kOn,
};

struct CudaOptions {
  int devices = 1;  // device d is on GPU d modulo their number: more devices than GPUs share them
  Precision precision = Precision::kF32;
  // Two runs give equal bits: convolutions by algorithms that promise it, sums over devices by copies, not by NCCL. All else
  // does anyway.
  bool deterministic = false;
  Collectives collectives = Collectives::kAuto;
  Graphs graphs = Graphs::kAuto;
  bool times_tasks = false;        // Times() is zero without: two events around each task
  int64_t memory_limit_bytes = 0;  // of each device; 0: none
};

// Returns a backend on `calls`, through which Programs reach the GPUs; backends of one host thread may share them.
// InvalidArgument if an option is out of range; FailedPrecondition if NCCL is asked for where it cannot be.
absl::StatusOr<std::unique_ptr<engine::Backend>> MakeCudaBackend(const CudaOptions& options, std::shared_ptr<Calls> calls);

// Calls on CUDA, cuDNN and cuBLAS (driver/, a module that is loaded here). With a file, each convolution uses the cuDNN
// engine that a timed search found fastest; a convolution that the file does not know is searched and added
// (engine_choices.h). Takes the first `most_gpus` GPUs, or fewer where there are not so many; the others' memory stays
// untouched. Unavailable where there is no GPU or driver, FailedPrecondition where there seems to be one but the module
// cannot be loaded (HasGpuFile), InvalidArgument or DataLoss of the file.
absl::StatusOr<std::unique_ptr<Calls>> OpenCuda(const std::string& engines_file = "",
                                                int most_gpus = std::numeric_limits<int>::max());

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_BACKEND_H_
