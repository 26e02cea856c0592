// Each target = the sum of all sources, element by element, in the order in which the sources come; bf16 is summed in float.
//
// A SumPlan is made once, outside the step. Operands that lie alike, as those of a transfer's members do, are one operand of
// its BoxPlan, so that neither the plan nor a walk along it grows with their number. A plan is immutable; threads may run
// ranges of its rows together.
#ifndef COLONNADE_CPU_SUM_PLAN_H_
#define COLONNADE_CPU_SUM_PLAN_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "cpu/load/box.h"
#include "cpu/load/view.h"
#include "program/formulas/bfloat16.h"

namespace colonnade::cpu {

// total += x, and y = total, of neighbours in memory. Those of f32 are as fast without a function of their own.
void AddNeighbours(int64_t count, const program::BFloat16* x, float* total);
void PutNeighbours(int64_t count, const float* total, program::BFloat16* y);

class SumPlan {
 public:
  // Where the elements of an operand are: operand `layout` of the plan's boxes, `offset` elements further.
  struct Location {
    int layout;
    int64_t offset;
  };

  // REQUIRES: at least one source; views of equal shape and dtype, none opaque.
  SumPlan(absl::Span<const View> sources, absl::Span<const View> targets) {
    std::vector<View> layouts;
    for (const View& view : sources) sources_.push_back(Locate(view, layouts));
    for (const View& view : targets) targets_.push_back(Locate(view, layouts));
    boxes_ = BoxPlan(layouts);
  }

  const BoxPlan& boxes() const { return boxes_; }
  absl::Span<const Location> sources() const { return sources_; }
  absl::Span<const Location> targets() const { return targets_; }

  // Sums rows [begin, end) of the boxes. `memory(i)`: the T* at which operand i begins; targets come behind the sources.
  template <class T, class Memory>
  void Run(int64_t begin, int64_t end, const Memory& memory) const {
    boxes_.ForRows(begin, end, [&](const Row& row) {
      RowTotal<T> total(row.size);
      const auto at = [&](size_t i, const Location& x) { return memory(i) + x.offset + row.offset[x.layout]; };
      for (size_t i = 0; i < sources_.size(); ++i) total.Add(at(i, sources_[i]), row.stride[sources_[i].layout]);
      for (size_t j = 0; j < targets_.size(); ++j) {
        total.Put(at(sources_.size() + j, targets_[j]), row.stride[targets_[j].layout]);
      }
    });
  }

 private:
  // The sum of one row.
  template <class T>
  class RowTotal {
   public:
    explicit RowTotal(int64_t size) : size_(size) {}

    void Add(const T* x, int64_t stride) {
      if (empty_) {
        for (int64_t i = 0; i < size_; ++i) total_[i] = x[i * stride];
      } else if (stride == 1) {
        if constexpr (kIsBf16) {
          AddNeighbours(size_, x, total_.data());
        } else {
          for (int64_t i = 0; i < size_; ++i) total_[i] += x[i];
        }
      } else {
        for (int64_t i = 0; i < size_; ++i) total_[i] += x[i * stride];
      }
      empty_ = false;
    }
    void Put(T* y, int64_t stride) const {
      if constexpr (kIsBf16) {
        if (stride == 1) return PutNeighbours(size_, total_.data(), y);
      }
      for (int64_t i = 0; i < size_; ++i) y[i * stride] = static_cast<T>(total_[i]);
    }

   private:
    static constexpr bool kIsBf16 = std::is_same_v<T, program::BFloat16>;
    using Total = std::conditional_t<kIsBf16, float, T>;
    const int64_t size_;
    bool empty_ = true;
    std::array<Total, BoxPlan::kMaxRow> total_;  // the first size_ are set once it is not empty
  };

  static Location Locate(View view, std::vector<View>& layouts) {
    const int64_t offset = std::exchange(view.offset, 0);
    const auto found =
        std::find_if(layouts.begin(), layouts.end(), [&](const View& known) { return SameLayout(known, view); });
    const Location location = {static_cast<int>(found - layouts.begin()), offset};
    if (found == layouts.end()) layouts.push_back(std::move(view));
    return location;
  }

  std::vector<Location> sources_, targets_;
  BoxPlan boxes_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_SUM_PLAN_H_
