// Kernels over the elements of a walk, and sums over them; kernels.h says how they are written.
#ifndef COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_
#define COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_

#include <cstdint>

#include "cuda/reduction.h"
#include "cuda/vector.h"
#include "cuda/walk.h"
#include "program/bfloat16.h"
#include "program/math.h"
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

// Each of `outputs` targets = x_0 + x_1 + … in that order.
template <class T, int lanes>
struct SumElements {
  Walk walk;  // inputs, then outputs
  int inputs, outputs;
  const T* x[kMostOperands];
  T* y[kMostOperands];
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    typename AccumulatorOf<T>::Type sums[lanes];
    const auto first = VectorAt<lanes>(x[0], walk.At(0, i * lanes));
    for (int l = 0; l < lanes; ++l) sums[l] = first[l];
    for (int j = 1; j < inputs; ++j) {
      const auto in = VectorAt<lanes>(x[j], walk.At(j, i * lanes));
      for (int l = 0; l < lanes; ++l) sums[l] += in[l];
    }
    Vector<T, lanes> out;
    for (int l = 0; l < lanes; ++l) out[l] = static_cast<T>(sums[l]);
    for (int j = 0; j < outputs; ++j) PutAt(y[j], walk.At(inputs + j, i * lanes), out);
  }
};

// y = x + b, or max(x + b, 0).
template <class T, int lanes>
struct AddBias {
  Walk walk;  // x, b repeated, y
  const T *x, *b;
  T* y;
  bool relu;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto in = VectorAt<lanes>(x, walk.At(0, i * lanes)), bias = VectorAt<lanes>(b, walk.At(1, i * lanes));
    Vector<T, lanes> out;
    for (int l = 0; l < lanes; ++l) {
      const float sum = float{in[l]} + float{bias[l]};
      out[l] = static_cast<T>(relu ? program::Relu(sum) : sum);
    }
    PutAt(y, walk.At(2, i * lanes), out);
  }
};

template <class T, int lanes>
struct ReluForwardElements {
  Walk walk;  // x, y
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    auto values = VectorAt<lanes>(x, walk.At(0, i * lanes));
    for (int l = 0; l < lanes; ++l) values[l] = program::Relu(values[l]);
    PutAt(y, walk.At(1, i * lanes), values);
  }
};

template <class T, int lanes>
struct ReluBackwardElements {
  Walk walk;  // y, dy, dx
  const T *y, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const auto out = VectorAt<lanes>(y, walk.At(0, i * lanes));
    auto values = VectorAt<lanes>(dy, walk.At(1, i * lanes));
    for (int l = 0; l < lanes; ++l) values[l] = program::ReluGradient(out[l], values[l]);
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
    const uint64_t seed = static_cast<uint64_t>(scalars[program::kSeed]);
    const uint64_t step = static_cast<uint64_t>(scalars[program::kStep]);
    const float scale = static_cast<float>(1.0 / (1.0 - rate));
    auto values = VectorAt<lanes>(x, walk.At(0, i * lanes));
    program::Keep4 keep;
    for (int l = 0; l < lanes; ++l) {
      if (l % 4 == 0) keep = program::DropoutKeep(seed, stream, step, (first + l) / 4, rate);
      values[l] = static_cast<T>(keep.keep[lanes % 4 == 0 ? l % 4 : (first + l) % 4] ? values[l] * scale : 0.0f);
    }
    PutAt(y, walk.At(1, i * lanes), values);
  }
};

template <int lanes>
struct SgdElements {
  Walk walk;  // g, v, w
  const double* scalars;
  const float* g;
  float *v, *w;
  float momentum, weight_decay;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    const float lr = static_cast<float>(scalars[program::kLearningRate]);
    const int64_t at_v = walk.At(1, i * lanes), at_w = walk.At(2, i * lanes);
    const auto gradient = VectorAt<lanes>(g, walk.At(0, i * lanes));
    auto momenta = VectorAt<lanes>(v, at_v), weights = VectorAt<lanes>(w, at_w);
    for (int l = 0; l < lanes; ++l) program::SgdStep(lr, momentum, weight_decay, gradient[l], momenta[l], weights[l]);
    PutAt(v, at_v, momenta);
    PutAt(w, at_w, weights);
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

// A tensor that is checked, and the blocks that do it.
struct CheckedTensor {
  const float* x;
  int64_t elements;
  int64_t first_block, blocks;
  int32_t* flag;
};

// flags[block] = 1 if all that the block's threads see of its tensor is finite, else 0. A thread reads four elements at
// once; the last few of a tensor are read by the first threads.
struct FiniteTensors {
  static constexpr int kMostTensors = 64, kLanes = kLanesOf<float>;
  int count;
  CheckedTensor tensors[kMostTensors];
  int32_t* flags;
  using Part = int32_t;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return tensors[count - 1].first_block + tensors[count - 1].blocks; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int) const {
    int t = 0;
    while (t + 1 < count && tensors[t + 1].first_block <= block) ++t;
    const CheckedTensor& tensor = tensors[t];
    const int64_t vectors = tensor.elements / kLanes, first = (block - tensor.first_block) * rows + row;
    int32_t finite = 1;
    for (int64_t i = first; i < vectors; i += tensor.blocks * rows) {
      const auto values = VectorAt<kLanes>(tensor.x, i * kLanes);
      for (int l = 0; l < kLanes; ++l) finite &= program::IsFinite(values[l]) ? 1 : 0;
    }
    const int64_t last = vectors * kLanes + first;
    if (last < tensor.elements) finite &= program::IsFinite(tensor.x[last]) ? 1 : 0;
    return finite;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a & b; }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int, Part part) const { flags[block] = part; }
};
// A tensor's flag = 1 if those of all of its blocks are.
struct FlagTensors {
  int count;
  CheckedTensor tensors[FiniteTensors::kMostTensors];
  const int32_t* flags;
  using Part = int32_t;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return count; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t t, int row, int rows, int) const {
    int32_t every = 1;
    for (int64_t i = row; i < tensors[t].blocks; i += rows) every &= flags[tensors[t].first_block + i];
    return every;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a & b; }
  COLONNADE_HOST_DEVICE void Put(int64_t t, int, Part part) const { *tensors[t].flag = part; }
};

// Sums over the positions of each channel, in double. Blocks of a part of the positions have a column for each of a few
// vectors of channels, so that neighbouring threads read neighbouring channels: partial[part][k] = Σ dy[·, k, ·], or, of
// one part alone, db[k] itself.
template <class T, int lanes>
struct ChannelSums {
  Walk walk;  // positions: dy with k = 0
  const T* dy;
  int64_t channels, channel_stride, parts;
  int vectors_of_block;
  double* partial;  // null where there is one part
  float* db;
  int64_t db_stride;
  struct Part {
    double sums[lanes];
  };
  COLONNADE_HOST_DEVICE int64_t blocks_of_part() const {
    return (channels / lanes + vectors_of_block - 1) / vectors_of_block;
  }
  COLONNADE_HOST_DEVICE int64_t blocks() const { return parts * blocks_of_part(); }
  COLONNADE_HOST_DEVICE int columns() const { return vectors_of_block; }
  COLONNADE_HOST_DEVICE int64_t ChannelOf(int64_t block, int column) const {
    return (block % blocks_of_part() * vectors_of_block + column) * lanes;
  }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    Part part = {};
    const int64_t k = ChannelOf(block, column);
    if (k >= channels) return part;
    const Chunk chunk = ChunkOf(walk.count, parts, block / blocks_of_part());
    for (int64_t j = chunk.begin + row; j < chunk.end; j += rows) {
      const auto values = VectorAt<lanes>(dy, walk.At(0, j) + k * channel_stride);
      for (int l = 0; l < lanes; ++l) part.sums[l] += values[l];
    }
    return part;
  }
  COLONNADE_HOST_DEVICE static Part Merge(const Part& a, const Part& b) {
    Part both;
    for (int l = 0; l < lanes; ++l) both.sums[l] = a.sums[l] + b.sums[l];
    return both;
  }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, const Part& part) const {
    const int64_t k = ChannelOf(block, column);
    for (int l = 0; l < lanes && k < channels; ++l) {
      if (partial == nullptr) {
        db[(k + l) * db_stride] = static_cast<float>(part.sums[l]);
      } else {
        partial[block / blocks_of_part() * channels + k + l] = part.sums[l];
      }
    }
  }
};
// db[k] = Σ over parts of partial[part][k].
struct SumChannelParts {
  const double* partial;
  int64_t channels, parts;
  float* db;
  int64_t db_stride;
  static constexpr int kColumns = 2;
  using Part = double;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return (channels + kColumns - 1) / kColumns; }
  COLONNADE_HOST_DEVICE int columns() const { return kColumns; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int column) const {
    const int64_t k = block * kColumns + column;
    double sum = 0;
    for (int64_t part = row; part < parts && k < channels; part += rows) sum += partial[part * channels + k];
    return sum;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a + b; }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int column, Part sum) const {
    const int64_t k = block * kColumns + column;
    if (k < channels) db[k * db_stride] = static_cast<float>(sum);
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_ELEMENTWISE_KERNELS_H_
