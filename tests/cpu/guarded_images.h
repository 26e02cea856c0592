// Floats or bfloat16 in memory whose ends are guarded, for tests of loops that are called without the rest of the backend.
#ifndef COLONNADE_TESTS_CPU_GUARDED_IMAGES_H_
#define COLONNADE_TESTS_CPU_GUARDED_IMAGES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "program/formulas/bfloat16.h"

namespace colonnade::cpu {

inline constexpr float kOutside = 1e9f;  // around images: what must not be read shows

// Floats between guards, as a kernel of f32 or of bf16 has them.
class Images {
 public:
  static constexpr int64_t kGuard = 64;

  Images(bool bf16, std::vector<float> floats) : bf16_(bf16), floats_(std::move(floats)) {
    floats_.insert(floats_.begin(), kGuard, kOutside);
    floats_.insert(floats_.end(), kGuard, kOutside);
    if (!bf16_) return;
    halves_ = std::vector<program::BFloat16>(floats_.begin(), floats_.end());
    floats_.assign(halves_.begin(), halves_.end());
  }

  void* data() { return bf16_ ? static_cast<void*>(halves_.data() + kGuard) : floats_.data() + kGuard; }
  const void* data() const { return const_cast<Images*>(this)->data(); }
  float operator[](int64_t i) const { return bf16_ ? static_cast<float>(halves_[kGuard + i]) : floats_[kGuard + i]; }
  // Whether nothing was written beside them.
  bool GuardsHold(int64_t count) const {
    const float guard = bf16_ ? static_cast<float>(program::BFloat16(kOutside)) : kOutside;
    for (int64_t i = 1; i <= kGuard; ++i) {
      if ((*this)[-i] != guard || (*this)[count + i - 1] != guard) return false;
    }
    return true;
  }

 private:
  bool bf16_;
  std::vector<float> floats_;
  std::vector<program::BFloat16> halves_;
};

}  // namespace colonnade::cpu

#endif  // COLONNADE_TESTS_CPU_GUARDED_IMAGES_H_
