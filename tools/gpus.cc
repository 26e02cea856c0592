#include "tools/gpus.h"

#include <memory>

#include "base/status_macros.h"
#include "cuda/backend.h"

namespace colonnade::tools {

absl::StatusOr<Gpus> FindGpus() {
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::Calls> calls, cuda::OpenCuda());
  return Gpus{calls->gpu_count(), calls->GpuName(0), calls->GpuMemoryBytes(0)};
}

}  // namespace colonnade::tools
