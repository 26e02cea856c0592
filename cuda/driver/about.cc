// Versions of CUDA and its libraries, and the GPUs, without a context on any.
#include "cuda/about.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cuda/driver/nccl_library.h"
#include "cuda/status.h"

namespace colonnade::cuda {
namespace {

absl::Status AnswerOf(cudaError_t error, const char* call) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return StatusOf(FailureOfCuda(error), call, cudaGetErrorString(error));
}

#define COLONNADE_ASK(call) RETURN_IF_ERROR(AnswerOf(call, #call))

// 13000 is 13.0; 0, where there is no driver, is nothing.
std::string VersionOfCuda(int number) {
  return number == 0 ? "" : absl::StrFormat("%d.%d", number / 1000, number % 1000 / 10);
}

absl::StatusOr<GpuFacts> AboutGpu(int gpu) {
  cudaDeviceProp properties;
  char pci[32];
  COLONNADE_ASK(cudaGetDeviceProperties(&properties, gpu));
  COLONNADE_ASK(cudaDeviceGetPCIBusId(pci, sizeof(pci), gpu));
  return GpuFacts{.name = properties.name,
                  .compute_capability = absl::StrFormat("%d.%d", properties.major, properties.minor),
                  .pci = absl::AsciiStrToLower(pci),
                  .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                  .multiprocessors = properties.multiProcessorCount};
}

absl::StatusOr<PeerAccess> AboutPeers(int from, int to) {
  PeerAccess access;
  int value = 0;
  COLONNADE_ASK(cudaDeviceCanAccessPeer(&value, from, to));
  access.possible = value != 0;
  COLONNADE_ASK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrNativeAtomicSupported, from, to));
  access.atomics = value != 0;
  COLONNADE_ASK(cudaDeviceGetP2PAttribute(&access.rank, cudaDevP2PAttrPerformanceRank, from, to));
  return access;
}

absl::Status AboutGpus(CudaFacts& facts) {
  int count = 0;
  COLONNADE_ASK(cudaGetDeviceCount(&count));
  if (count == 0) return absl::UnavailableError("cudaGetDeviceCount: no GPU");
  for (int from = 0; from < count; ++from) {
    ASSIGN_OR_RETURN(GpuFacts gpu, AboutGpu(from));
    facts.gpus.push_back(std::move(gpu));
    std::vector<PeerAccess>& peers = facts.peers.emplace_back(count);
    for (int to = 0; to < count; ++to) {
      if (to == from) continue;
      ASSIGN_OR_RETURN(peers[to], AboutPeers(from, to));
    }
  }
  return absl::OkStatus();
}

#undef COLONNADE_ASK

}  // namespace

// What open.cc looks for.
extern "C" void colonnade_about_cuda(CudaFacts* facts) {
  int runtime = 0, driver = 0;
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) facts->runtime = VersionOfCuda(runtime);
  if (cudaDriverGetVersion(&driver) == cudaSuccess) facts->supported = VersionOfCuda(driver);
  facts->cudnn = VersionOfLibrary(static_cast<int>(cudnnGetVersion()));
  facts->cublas = VersionOfLibrary(static_cast<int>(cublasLtGetVersion()));
  if (const absl::StatusOr<NcclLibrary> nccl = LoadNccl(); nccl.ok()) {
    facts->nccl = VersionOfLibrary(nccl->version);
  } else {
    facts->no_nccl = std::string(nccl.status().message());
  }
  facts->status = AboutGpus(*facts);
}

}  // namespace colonnade::cuda
