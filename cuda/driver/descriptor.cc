#include "cuda/driver/descriptor.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "cuda/status.h"

namespace colonnade::cuda {

absl::Status CheckCudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> words = {};
  cudnnGetLastErrorString(words.data(), words.size());
  return StatusOf(FailureOfCudnn(status), call, absl::StrCat(cudnnGetErrorString(status), " ", words.data()));
}

}  // namespace colonnade::cuda
