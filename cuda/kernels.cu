#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/launch.h"

namespace colonnade::cuda {
namespace {

constexpr int kThreadsOfBlock = 256;
constexpr int64_t kMostBlocks = 4096;  // threads of larger kernels take several elements each

template <class K>
__global__ void __launch_bounds__(kThreadsOfBlock) RunThreads(const __grid_constant__ K kernel, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * kThreadsOfBlock;
  for (int64_t i = int64_t{blockIdx.x} * kThreadsOfBlock + threadIdx.x; i < count; i += stride) kernel(i);
}

template <class K>
cudaError_t Launch(const K& kernel, cudaStream_t stream) {
  const int64_t count = kernel.count();
  if (count == 0) return cudaSuccess;
  const int64_t blocks = std::min((count + kThreadsOfBlock - 1) / kThreadsOfBlock, kMostBlocks);
  RunThreads<<<static_cast<unsigned>(blocks), kThreadsOfBlock, 0, stream>>>(kernel, count);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchKernel(const Kernel& kernel, cudaStream_t stream) {
  return std::visit([&](const auto& k) { return Launch(k, stream); }, kernel);
}

}  // namespace colonnade::cuda
