#include "cuda/status.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace colonnade::cuda {

// The numbers are part of the libraries' binary interfaces; this file is built without their headers, too.
Failure FailureOfCuda(int error) {
  switch (error) {
    case 0:  // cudaSuccess
      return Failure::kNone;
    case 2:  // cudaErrorMemoryAllocation
      return Failure::kNoMemory;
    case 3:    // cudaErrorInitializationError
    case 34:   // cudaErrorStubLibrary
    case 35:   // cudaErrorInsufficientDriver
    case 46:   // cudaErrorDevicesUnavailable
    case 100:  // cudaErrorNoDevice
    case 802:  // cudaErrorSystemNotReady
    case 803:  // cudaErrorSystemDriverMismatch
    case 804:  // cudaErrorCompatNotSupportedOnDevice
      return Failure::kNoDevice;
    case 209:  // cudaErrorNoKernelImageForDevice
    case 801:  // cudaErrorNotSupported
      return Failure::kUnsupported;
    case 900:  // cudaErrorStreamCaptureUnsupported, and others of what cannot be captured
    case 901:
    case 902:
    case 903:
    case 904:
    case 905:
    case 906:
    case 907:
    case 908:  // cudaErrorStreamCaptureWrongThread
      return Failure::kUnsupported;
    case 1:    // cudaErrorInvalidValue
    case 9:    // cudaErrorInvalidConfiguration
    case 101:  // cudaErrorInvalidDevice
      return Failure::kBadArgument;
    default:
      return Failure::kBroken;
  }
}

std::string VersionOfLibrary(int number) {
  return absl::StrFormat("%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
}

absl::string_view HintOfCuda(int cuda_error) {
  const bool is_of_work_before = cuda_error == 214 || cuda_error == 700 || cuda_error == 702 || cuda_error == 710 ||
                                 (cuda_error >= 714 && cuda_error <= 719);  // ECC, addresses, time, asserts, launches
  return is_of_work_before
             // Launches of NCCL for several GPUs by one thread would wait for each other.
             ? "; work that was enqueued before did it: --cuda-graphs=off, --collectives=peer and CUDA_LAUNCH_BLOCKING=1 "
               "tell which"
             : "";
}

// Since cuDNN 9 a code's thousands are its category.
Failure FailureOfCudnn(int status) {
  if (status == 0) return Failure::kNone;
  if (status == 1001) return Failure::kNoDevice;  // CUDNN_STATUS_NOT_INITIALIZED
  switch (status / 1000) {
    case 2:  // CUDNN_STATUS_BAD_PARAM…
      return Failure::kBadArgument;
    case 3:  // CUDNN_STATUS_NOT_SUPPORTED…
      return Failure::kUnsupported;
    case 4:  // CUDNN_STATUS_INTERNAL_ERROR…; 4003 and 4004 are allocations
      return status == 4003 || status == 4004 ? Failure::kNoMemory : Failure::kBroken;
    default:
      return Failure::kBroken;
  }
}

Failure FailureOfCublas(int status) {
  switch (status) {
    case 0:  // CUBLAS_STATUS_SUCCESS
      return Failure::kNone;
    case 1:  // CUBLAS_STATUS_NOT_INITIALIZED
      return Failure::kNoDevice;
    case 3:  // CUBLAS_STATUS_ALLOC_FAILED
      return Failure::kNoMemory;
    case 7:  // CUBLAS_STATUS_INVALID_VALUE
      return Failure::kBadArgument;
    case 8:   // CUBLAS_STATUS_ARCH_MISMATCH
    case 15:  // CUBLAS_STATUS_NOT_SUPPORTED
      return Failure::kUnsupported;
    default:
      return Failure::kBroken;
  }
}

Failure FailureOfNccl(int result) {
  switch (result) {
    case 0:  // ncclSuccess
    case 7:  // ncclInProgress
      return Failure::kNone;
    case 4:  // ncclInvalidArgument
    case 5:  // ncclInvalidUsage
      return Failure::kBadArgument;
    case 2:  // ncclSystemError: sockets, shared memory
    case 6:  // ncclRemoteError: a peer left
      return Failure::kNoDevice;
    default:
      return Failure::kBroken;
  }
}

absl::Status StatusOf(Failure failure, absl::string_view call, absl::string_view words) {
  // Without its arguments.
  const std::string message = absl::StrCat(call.substr(0, call.find('(')), ": ", words);
  switch (failure) {
    case Failure::kNone:
      return absl::OkStatus();
    case Failure::kNoMemory:
      return absl::ResourceExhaustedError(message);
    case Failure::kNoDevice:
      return absl::UnavailableError(message);
    case Failure::kUnsupported:
      return absl::UnimplementedError(message);
    case Failure::kBadArgument:
      return absl::InvalidArgumentError(message);
    case Failure::kBroken:
      return absl::InternalError(message);
  }
  return absl::InternalError(message);
}

}  // namespace colonnade::cuda
