// The value types that every folder shares: element types, shapes, boxes and ids.
//
// Nothing here owns memory of a device or knows a plan. All types are plain values; threads may share them read-only.
#ifndef COLONNADE_PROGRAM_TYPES_H_
#define COLONNADE_PROGRAM_TYPES_H_

#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/container/inlined_vector.h"

namespace colonnade::program {

// The most devices of a Program, and so of plans and machine profiles.
inline constexpr int kMostDevices = 1 << 12;
// The most elements of a buffer, far from where products of extents overflow.
inline constexpr int64_t kMostElements = int64_t{1} << 48;

enum class DType : uint8_t { kF32, kF64, kI32, kU8, kBF16 };

// Whether `number` is finite in f32, in which kernels compute with it.
inline bool FitsF32(double number) { return std::isfinite(static_cast<float>(number)); }

int64_t SizeInBytes(DType dtype);
bool IsFloat(DType dtype);
bool IsMaster(DType dtype);  // f32, f64
// Returns the element type of parameters, gradients, momenta and saved tensors in a Program that computes in `dtype`: f32
// for bf16, else `dtype` itself.
DType MasterType(DType dtype);
const char* Name(DType dtype);
// Returns the element type of a C++ type.
template <class T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kF64;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kU8;
}

// Extents, outermost first: images [N, C, H, W], matrices [N, I], one-dimensional [K]. Row-major is the logical order.
using Shape = absl::InlinedVector<int64_t, 4>;

int64_t ElementCount(const Shape& shape);  // 1 for a scalar's empty shape
std::string ToString(const Shape& shape);  // "[64,96,55,55]"

// A box of a tensor: in dimension d the half-open range [offset[d], offset[d] + size[d]).
struct Region {
  Shape offset;
  Shape size;

  static Region Whole(const Shape& shape);
  int64_t elements() const { return ElementCount(size); }
  bool operator==(const Region&) const = default;
};

bool Overlaps(const Region& a, const Region& b);          // REQUIRES: equal rank
bool Contains(const Region& outer, const Region& inner);  // REQUIRES: equal rank
Region Intersection(const Region& a, const Region& b);    // sizes are 0 where they do not meet
std::string ToString(const Region& region);               // "[0:64,48:96,0:55,0:55]"

// An index of its own type, so that a buffer cannot be taken for a task.
template <class Tag>
struct StrongId {
  int32_t value = -1;
  bool valid() const { return value >= 0; }
  auto operator<=>(const StrongId&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.value);
  }
};
using BufferId = StrongId<struct BufferTag>;
using TaskId = StrongId<struct TaskTag>;

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_TYPES_H_
