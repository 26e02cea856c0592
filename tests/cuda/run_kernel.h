// Kernels of cuda/ on the host: thread after thread, block after block.
#ifndef COLONNADE_TESTS_CUDA_RUN_KERNEL_H_
#define COLONNADE_TESTS_CUDA_RUN_KERNEL_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "cuda/kernels/kernels.h"

namespace colonnade::cuda {

template <class K>
void RunOnHost(const K& kernel) {
  for (int64_t i = 0; i < kernel.count(); ++i) kernel(i);
}

template <LoadsAhead K>
void RunOnHost(const K& kernel) {
  for (int64_t i = 0; i < kernel.count(); ++i) kernel.Put(i, kernel.Load(i));
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

}  // namespace colonnade::cuda

#endif  // COLONNADE_TESTS_CUDA_RUN_KERNEL_H_
