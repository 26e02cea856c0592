// Vectors: neighbouring elements that a thread loads or stores at once.
#ifndef COLONNADE_CUDA_VECTOR_H_
#define COLONNADE_CUDA_VECTOR_H_

#include <cstdint>

#include "absl/types/span.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/host_device.h"

namespace colonnade::cuda {

// The widest access of a thread, in bytes. Wider vectors take several.
inline constexpr int kWidestAccess = 16;

// Elements of T in one access.
template <class T>
inline constexpr int kLanesOf = kWidestAccess / static_cast<int>(sizeof(T));

template <class T, int lanes>
struct alignas(sizeof(T) * lanes < kWidestAccess ? sizeof(T) * lanes : kWidestAccess) Vector {
  T of[lanes];
  COLONNADE_HOST_DEVICE T& operator[](int lane) { return of[lane]; }
  COLONNADE_HOST_DEVICE const T& operator[](int lane) const { return of[lane]; }
};

template <int lanes, class T>
COLONNADE_HOST_DEVICE inline Vector<T, lanes> VectorAt(const T* data, int64_t first) {
  return *reinterpret_cast<const Vector<T, lanes>*>(data + first);
}
template <class T, int lanes>
COLONNADE_HOST_DEVICE inline void PutAt(T* data, int64_t first, const Vector<T, lanes>& vector) {
  *reinterpret_cast<Vector<T, lanes>*>(data + first) = vector;
}
template <class T, int lanes>
COLONNADE_HOST_DEVICE inline Vector<T, lanes> Rounded(const float (&values)[lanes]) {
  Vector<T, lanes> vector;
  for (int l = 0; l < lanes; ++l) vector[l] = static_cast<T>(values[l]);
  return vector;
}

// What thread i of a kernel does.
#define COLONNADE_THREAD COLONNADE_HOST_DEVICE inline void operator()(int64_t i) const

// Memory that a walk's offsets count from.
struct Base {
  const void* data = nullptr;
  int64_t element_bytes = 1;
};
// Whether vectors of `lanes` elements from element 0 on are neighbours in every operand of a walk, each aligned for its
// access.
bool LieInVectors(const Walk& walk, absl::Span<const Base> bases, int lanes);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_VECTOR_H_
