// Starts our own kernels on a GPU; the one file that nvcc compiles is behind it.
#ifndef COLONNADE_CUDA_LAUNCH_H_
#define COLONNADE_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "cuda/kernels/kernels.h"

namespace colonnade::cuda {

// Returns what the launch itself says; errors inside come at the next synchronisation.
cudaError_t LaunchKernel(const Kernel& kernel, cudaStream_t stream);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LAUNCH_H_
