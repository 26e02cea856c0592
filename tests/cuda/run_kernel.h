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
  const int64_t count = kernel.count();
  for (int64_t i = 0; i + 1 < count; i += 2) {
    const auto loaded = kernel.Load(i), next = kernel.Load(i + 1);
    kernel.Put(i, loaded);
    kernel.Put(i + 1, next);
  }
  if (count % 2 == 1) kernel.Put(count - 1, kernel.Load(count - 1));
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
