#include "tools/gpus.h"

#include <memory>

#include "base/status_macros.h"
#include "cuda/about.h"
#include "cuda/backend.h"

namespace colonnade::tools {

absl::StatusOr<Gpus> FindGpus() {
  // A GPU that is there may not open.
  ASSIGN_OR_RETURN(std::unique_ptr<cuda::Calls> calls, cuda::OpenCuda(/*engines_file=*/"", /*most_gpus=*/1));
  ASSIGN_OR_RETURN(const cuda::CudaFacts facts, cuda::AboutCuda());
  return Gpus{static_cast<int>(facts.gpus.size()), calls->GpuName(0), calls->GpuMemoryBytes(0)};
}

}  // namespace colonnade::tools
