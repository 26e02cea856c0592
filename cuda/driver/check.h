// Errors of CUDA, cuDNN and cuBLASLt as Status that names the call.
#ifndef COLONNADE_CUDA_CHECK_H_
#define COLONNADE_CUDA_CHECK_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/driver/descriptor.h"
#include "cuda/driver/matrix_products.h"
#include "cuda/status.h"

namespace colonnade::cuda {

inline absl::Status CheckCall(cudaError_t error, const char* call) {
  if (error != cudaSuccess) (void)cudaGetLastError();  // or the next launch of a kernel would return it again
  return StatusOf(FailureOfCuda(error), call, absl::StrCat(cudaGetErrorString(error), HintOfCuda(error)));
}
inline absl::Status CheckCall(cudnnStatus_t status, const char* call) { return CheckCudnn(status, call); }
inline absl::Status CheckCall(cublasStatus_t status, const char* call) { return CheckCublas(status, call); }

#define COLONNADE_CHECK(call)                \
  do {                                       \
    RETURN_IF_ERROR(CheckCall(call, #call)); \
  } while (false)

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_CHECK_H_
