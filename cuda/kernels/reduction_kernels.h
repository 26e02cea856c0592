// Reductions over elements: sums of channels, and whether all are finite; reduction.h says how they are written.
#ifndef COLONNADE_CUDA_REDUCTION_KERNELS_H_
#define COLONNADE_CUDA_REDUCTION_KERNELS_H_

#include <cstdint>

#include "cuda/kernels/elementwise_kernels.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/math.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {

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
  FiniteTensors of;
  using Part = int32_t;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return of.count; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t t, int row, int rows, int) const {
    const CheckedTensor& tensor = of.tensors[t];
    int32_t every = 1;
    for (int64_t i = row; i < tensor.blocks; i += rows) every &= of.flags[tensor.first_block + i];
    return every;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a & b; }
  COLONNADE_HOST_DEVICE void Put(int64_t t, int, Part part) const { *of.tensors[t].flag = part; }
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
  COLONNADE_HOST_DEVICE int64_t blocks_of_part() const { return program::CeilDiv(channels / lanes, vectors_of_block); }
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
  COLONNADE_HOST_DEVICE int64_t blocks() const { return program::CeilDiv(channels, kColumns); }
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

#endif  // COLONNADE_CUDA_REDUCTION_KERNELS_H_
