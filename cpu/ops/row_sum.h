// The sum of one row of several operands, in the order in which they come; bf16 is summed in float.
//
// Belongs to one thread; takes no memory but its own.
#ifndef COLONNADE_CPU_ROW_SUM_H_
#define COLONNADE_CPU_ROW_SUM_H_

#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/load/box.h"
#include "program/bfloat16.h"

namespace colonnade::cpu {

template <class T>
class RowSum {
 public:
  // REQUIRES: at most BoxPlan::kMaxRow elements.
  explicit RowSum(int64_t size) : size_(size) {}

  void Add(const T* x, int64_t stride) {
    if (empty_) {
      for (int64_t i = 0; i < size_; ++i) total_[i] = x[i * stride];
    } else if (stride == 1) {
      for (int64_t i = 0; i < size_; ++i) total_[i] += x[i];
    } else {
      for (int64_t i = 0; i < size_; ++i) total_[i] += x[i * stride];
    }
    empty_ = false;
  }
  void Put(T* y, int64_t stride) const {
    for (int64_t i = 0; i < size_; ++i) y[i * stride] = static_cast<T>(total_[i]);
  }

 private:
  using Total = std::conditional_t<std::is_same_v<T, program::BFloat16>, float, T>;
  const int64_t size_;
  bool empty_ = true;
  std::array<Total, BoxPlan::kMaxRow> total_;  // the first size_ are set once it is not empty
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_ROW_SUM_H_
