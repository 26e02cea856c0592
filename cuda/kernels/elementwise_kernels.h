// Kernels over the elements of a walk; kernels.h says how they are written.
#ifndef COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_
#define COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_

#include <cstdint>

#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/activation.h"
#include "program/formulas/bfloat16.h"
#include "program/formulas/math.h"
#include "program/op.h"

namespace colonnade::cuda {

// y = x, of elements of 1, 2, 4, 8 or 16 bytes.
struct CopyElements {
  Walk walk;  // x, y
  const void* x;
  void* y;
  int element_bytes;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    const int64_t from = walk.At(0, i), to = walk.At(1, i);
    if (element_bytes == 16) {
      static_cast<Vector<uint32_t, 4>*>(y)[to] = static_cast<const Vector<uint32_t, 4>*>(x)[from];
    } else if (element_bytes == 4) {
      static_cast<uint32_t*>(y)[to] = static_cast<const uint32_t*>(x)[from];
    } else if (element_bytes == 8) {
      static_cast<uint64_t*>(y)[to] = static_cast<const uint64_t*>(x)[from];
    } else if (element_bytes == 2) {
      static_cast<uint16_t*>(y)[to] = static_cast<const uint16_t*>(x)[from];
    } else {
      static_cast<uint8_t*>(y)[to] = static_cast<const uint8_t*>(x)[from];
    }
  }
};

// y = x, rounded to To.
template <class From, class To, int lanes>
struct ConvertElements {
  Walk walk;  // x, y
  const From* x;
  To* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto in = VectorAt<lanes>(x, walk.At(0, i * lanes));
    Vector<To, lanes> out;
    for (int l = 0; l < lanes; ++l) out[l] = static_cast<To>(static_cast<float>(in[l]));
    PutAt(y, walk.At(1, i * lanes), out);
  }
};

// What sums of T are added up in.
template <class T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<program::BFloat16> {
  using Type = float;
};

inline constexpr int kMostTermsOfKernel = kMostOperands - 1;

// y = x_0 + x_1 + … in that order. What has more terms than a kernel takes is added up by several in turn: the first begin
// and the last ends, and between them the sums so far are in `partial`, in the order of the walk, which is that of y.
template <class T, int lanes>
struct SumElements {
  using Accumulator = typename AccumulatorOf<T>::Type;
  Walk walk;  // y, then x
  int terms;
  bool begins, ends;
  const T* x[kMostTermsOfKernel];
  T* y;
  Accumulator* partial;  // null where it both begins and ends
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    Vector<Accumulator, lanes> sums;
    if (begins) {
      const auto first = VectorAt<lanes>(x[0], walk.At(1, i * lanes));
      for (int l = 0; l < lanes; ++l) sums[l] = first[l];
    } else {
      sums = VectorAt<lanes>(partial, i * lanes);
    }
    for (int j = begins ? 1 : 0; j < terms; ++j) {
      const auto in = VectorAt<lanes>(x[j], walk.At(j + 1, i * lanes));
      for (int l = 0; l < lanes; ++l) sums[l] += in[l];
    }
    if (!ends) return PutAt(partial, i * lanes, sums);
    Vector<T, lanes> out;
    for (int l = 0; l < lanes; ++l) out[l] = static_cast<T>(sums[l]);
    PutAt(y, walk.At(0, i * lanes), out);
  }
};

// y = x + b, or max(x + b, 0), rounded to T.
template <class From, class T, int lanes>
struct AddBias {
  Walk walk;  // x, b repeated, y
  const From* x;
  const T* b;
  T* y;
  bool relu;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto in = VectorAt<lanes>(x, walk.At(0, i * lanes));
    const auto bias = VectorAt<lanes>(b, walk.At(1, i * lanes));
    Vector<T, lanes> out;
    for (int l = 0; l < lanes; ++l) {
      const float sum = float{in[l]} + float{bias[l]};
      out[l] = static_cast<T>(relu ? program::Relu(sum) : sum);
    }
    PutAt(y, walk.At(2, i * lanes), out);
  }
};

// y = f(x); Formula is one of program/formulas/activation.h.
template <class Formula, class T, int lanes>
struct ActivationForwardElements {
  Walk walk;  // x, y
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    auto values = VectorAt<lanes>(x, walk.At(0, i * lanes));
    for (int l = 0; l < lanes; ++l) values[l] = static_cast<T>(Formula::Value(float{values[l]}));
    PutAt(y, walk.At(1, i * lanes), values);
  }
};

template <class Formula, class T, int lanes>
struct ActivationBackwardElements {
  Walk walk;  // what forward kept, dy, dx
  const T *kept, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto of_forward = VectorAt<lanes>(kept, walk.At(0, i * lanes));
    auto values = VectorAt<lanes>(dy, walk.At(1, i * lanes));
    for (int l = 0; l < lanes; ++l) values[l] = static_cast<T>(Formula::Gradient(float{of_forward[l]}, float{values[l]}));
    PutAt(dx, walk.At(2, i * lanes), values);
  }
};

// Vectors begin at multiples of four in the global tensor: that many elements share one draw.
template <class T, int lanes>
struct DropoutElements {
  Walk walk;  // x, y, index in the global tensor (no memory)
  const double* scalars;
  const T* x;
  T* y;
  double rate;
  uint32_t stream;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const uint64_t first = static_cast<uint64_t>(walk.At(2, i * lanes));
    const uint64_t seed = static_cast<uint64_t>(scalars[program::StepScalar::kSeed]);
    const uint64_t step = static_cast<uint64_t>(scalars[program::StepScalar::kStep]);
    const float scale = static_cast<float>(1.0 / (1.0 - rate));
    auto values = VectorAt<lanes>(x, walk.At(0, i * lanes));
    program::Keep4 keep;
    for (int l = 0; l < lanes; ++l) {
      if (l % 4 == 0) keep = program::DropoutBlock(seed, stream, step, (first + l) / 4, rate);
      values[l] = static_cast<T>(keep.keep[lanes % 4 == 0 ? l % 4 : (first + l) % 4] ? values[l] * scale : 0.0f);
    }
    PutAt(y, walk.At(1, i * lanes), values);
  }
};

// The chunk of `all` that part i of `parts` has.
struct Chunk {
  int64_t begin, end;
};
COLONNADE_HOST_DEVICE inline Chunk ChunkOf(int64_t all, int64_t parts, int64_t i) {
  return {all / parts * i + (i < all % parts ? i : all % parts),
          all / parts * (i + 1) + (i + 1 < all % parts ? i + 1 : all % parts)};
}

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_
