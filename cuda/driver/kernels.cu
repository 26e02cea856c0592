#include <algorithm>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {
namespace {

constexpr int64_t kMostBlocks = 4096;  // threads of larger kernels take several elements each

template <class K>
__global__ void __launch_bounds__(kThreadsOfBlock) RunThreads(const __grid_constant__ K kernel, int64_t count) {
  RunThread(kernel, int64_t{blockIdx.x} * kThreadsOfBlock + threadIdx.x, int64_t{gridDim.x} * kThreadsOfBlock, count);
}

template <Reduction K>
__global__ void __launch_bounds__(kThreadsOfBlock) RunBlocks(const __grid_constant__ K kernel) {
  __shared__ typename K::Part parts[kThreadsOfBlock];
  const int columns = kernel.columns(), thread = threadIdx.x;
  const int row = thread / columns, column = thread % columns, rows = kThreadsOfBlock / columns;
  if (row < rows) parts[thread] = kernel.PartOf(blockIdx.x, row, rows, column);
  __syncthreads();
  for (int left = rows; left > 1; left = (left + 1) / 2) {
    const int partner = PartnerOf(row, left);
    if (partner >= 0) parts[thread] = K::Merge(parts[thread], parts[partner * columns + column]);
    __syncthreads();
  }
  if (row == 0) kernel.Put(blockIdx.x, column, parts[column]);
}

template <class K>
cudaError_t Launch(const K& kernel, cudaStream_t stream) {
  constexpr int64_t kOfBlock = WalksChannels<K> ? 2 * kThreadsOfBlock : kThreadsOfBlock;  // elements at once
  const int64_t count = kernel.count();
  if (count == 0) return cudaSuccess;
  const int64_t blocks = std::min(program::CeilDiv(count, kOfBlock), kMostBlocks);
  (void)cudaGetLastError();  // of a call before, whose error is not this launch's
  RunThreads<<<static_cast<unsigned>(blocks), kThreadsOfBlock, 0, stream>>>(kernel, count);
  return cudaGetLastError();
}

template <Reduction K>
cudaError_t Launch(const K& kernel, cudaStream_t stream) {
  if (kernel.blocks() == 0) return cudaSuccess;
  (void)cudaGetLastError();
  RunBlocks<<<static_cast<unsigned>(kernel.blocks()), kThreadsOfBlock, 0, stream>>>(kernel);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchKernel(const Kernel& kernel, cudaStream_t stream) {
  return std::visit([&](const auto& k) { return Launch(k, stream); }, kernel);
}

}  // namespace colonnade::cuda
