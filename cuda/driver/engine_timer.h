// Times engines of cuDNN for one convolution, on tensors of its own.
//
// Part of the driver module. Thread rule: one host thread.
#ifndef COLONNADE_CUDA_ENGINE_TIMER_H_
#define COLONNADE_CUDA_ENGINE_TIMER_H_

#include <cudnn.h>

#include "absl/status/statusor.h"
#include "cuda/calls.h"
#include "cuda/driver/convolution_runner.h"

namespace colonnade::cuda {

// ConvolutionRunner::TimerMaker, on a GPU and cuDNN's handle for it; `calls` and `handle` must outlive the result.
// Nothing else may run on the handle meanwhile.
absl::StatusOr<ConvolutionRunner::Timer> MakeEngineTimer(Calls& calls, int gpu, cudnnHandle_t handle,
                                                         const Convolution& convolution);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ENGINE_TIMER_H_
