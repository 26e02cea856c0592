// Where errors of CUDA and its libraries become Status, with the call, and the task where one is at work.
#ifndef COLONNADE_CUDA_STATUS_H_
#define COLONNADE_CUDA_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/error_context.h"

namespace colonnade::cuda {

// What a library's error code means for the caller; the message carries the library's text.
enum class Failure {
  kNone,
  kNoMemory,     // ResourceExhausted
  kNoDevice,     // Unavailable: no GPU, no driver, or one that is too old
  kUnsupported,  // Unimplemented: not on this GPU, or not for these shapes
  kBadArgument,  // InvalidArgument
  kBroken,       // Internal: a kernel faulted, a GPU fell off the bus, …
};
// Returns "; …" where calls report what work before them did: its task is not the one that is being enqueued. Else "".
absl::string_view HintOfCuda(int cuda_error);
Failure FailureOfCuda(int cuda_error);       // cudaError_t
Failure FailureOfCudnn(int cudnn_status);    // cudnnStatus_t
Failure FailureOfCublas(int cublas_status);  // cublasStatus_t
Failure FailureOfNccl(int nccl_result);      // ncclResult_t; none while it is in progress

// Returns "9.19.0" of 91900: versions of cuDNN, cuBLAS and NCCL.
std::string VersionOfLibrary(int number);

// Returns "cudaMalloc: out of memory" with the code that fits `failure`; OK for kNone.
absl::Status StatusOf(Failure failure, absl::string_view call, absl::string_view words);

using engine::InTask;
using engine::WithContext;

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_STATUS_H_
