// Kernels of cuda/ on the host: thread after thread, block after block.
#ifndef COLONNADE_TESTS_CUDA_RUN_KERNEL_H_
#define COLONNADE_TESTS_CUDA_RUN_KERNEL_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "cuda/kernels/kernels.h"

namespace colonnade::cuda {

template <class K>
void RunOnHost(const K& kernel, int64_t threads) {
  for (int64_t thread = 0; thread < threads; ++thread) RunThread(kernel, thread, threads, kernel.count());
}
template <class K>
void RunOnHost(const K& kernel) {
  RunOnHost(kernel, kernel.count() / 5 + 1);
}

template <Reduction K>
void RunOnHost(const K& kernel) {
  const int columns = kernel.columns(), rows = kThreadsOfBlock / columns;
  std::vector<typename K::Part> parts(rows);
  for (int64_t block = 0; block < kernel.blocks(); ++block) {
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < rows; ++row) parts[row] = kernel.PartOf(block, row, rows, column);
      for (int left = rows; left > 1; left = (left + 1) / 2) {
        for (int row = 0; row < left; ++row) {
          const int partner = PartnerOf(row, left);
          if (partner >= 0) parts[row] = K::Merge(parts[row], parts[partner]);
        }
      }
      kernel.Put(block, column, parts[0]);
    }
  }
}

inline void RunKernelOnHost(const Kernel& kernel) {
  std::visit([](const auto& k) { RunOnHost(k); }, kernel);
}
// A kernel of elements on so many threads; reductions have theirs.
inline void RunKernelOnHost(const Kernel& kernel, int64_t threads) {
  std::visit(
      [threads]<class K>(const K& k) {
        if constexpr (Reduction<K>) {
          RunOnHost(k);
        } else {
          RunOnHost(k, threads);
        }
      },
      kernel);
}

}  // namespace colonnade::cuda

#endif  // COLONNADE_TESTS_CUDA_RUN_KERNEL_H_
