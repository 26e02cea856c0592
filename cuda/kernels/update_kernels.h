// Kernels that update parameters; program/op.h says what they compute, kernels.h how they are written.
#ifndef COLONNADE_CUDA_UPDATE_KERNELS_H_
#define COLONNADE_CUDA_UPDATE_KERNELS_H_

#include <cstdint>

#include "cuda/kernels/reduction.h"
#include "cuda/kernels/vector.h"
#include "cuda/kernels/walk.h"
#include "program/formulas/adamw.h"
#include "program/formulas/sgd.h"
#include "program/formulas/update_gate.h"
#include "program/op.h"

namespace colonnade::cuda {

// Elements up to `end` of a walk, from where those of the segment before end: all of one member, or of several alike.
struct UpdateSegment {
  int64_t end;
  float rate, weight_decay;
  int member;
};

// What an update obeys beside its formula.
struct UpdateControl {
  static constexpr int kMostSegments = 32;
  const double* scalars;
  const double *gate, *trust;  // null: open, and factors of 1
  int segments;
  UpdateSegment segment[kMostSegments];

  COLONNADE_HOST_DEVICE bool IsClosed() const { return gate != nullptr && gate[program::Gate::kIsOpen] == 0; }
  COLONNADE_HOST_DEVICE float GradientScale() const {
    return gate != nullptr ? static_cast<float>(gate[program::Gate::kGradientScale]) : 1.0f;
  }
  COLONNADE_HOST_DEVICE const UpdateSegment& SegmentOf(int64_t i) const {
    int s = 0;
    while (s + 1 < segments && segment[s].end <= i) ++s;
    return segment[s];
  }
  COLONNADE_HOST_DEVICE float RateOf(const UpdateSegment& of) const {
    return static_cast<float>(scalars[program::StepScalar::kLearningRate] * of.rate *
                              (trust != nullptr ? trust[of.member] : 1));
  }
};

// Members begin at multiples of a vector.
template <int lanes>
struct SgdElements {
  Walk walk;  // g, v, w
  UpdateControl control;
  const float* g;
  float *v, *w;
  float momentum;
  program::SgdForm form;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    if (control.IsClosed()) return;
    const UpdateSegment& of = control.SegmentOf(i * lanes);
    const float lr = control.RateOf(of), scale = control.GradientScale();
    const int64_t at_v = walk.At(1, i * lanes), at_w = walk.At(2, i * lanes);
    const auto gradient = VectorAt<lanes>(g, walk.At(0, i * lanes));
    auto momenta = VectorAt<lanes>(v, at_v), weights = VectorAt<lanes>(w, at_w);
    for (int l = 0; l < lanes; ++l) {
      program::SgdStep(form, lr, momentum, of.weight_decay, scale * gradient[l], momenta[l], weights[l]);
    }
    PutAt(v, at_v, momenta);
    PutAt(w, at_w, weights);
  }
};

template <int lanes>
struct AdamWElements {
  Walk walk;  // g, m, v, w
  UpdateControl control;
  const float* g;
  float *m, *v, *w;
  program::AdamW adam;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    if (control.IsClosed()) return;
    const program::AdamWStep<float> step(adam, control.scalars[program::StepScalar::kStep] + 1);
    const UpdateSegment& of = control.SegmentOf(i * lanes);
    const float lr = control.RateOf(of), scale = control.GradientScale();
    const int64_t at_m = walk.At(1, i * lanes), at_v = walk.At(2, i * lanes), at_w = walk.At(3, i * lanes);
    const auto gradient = VectorAt<lanes>(g, walk.At(0, i * lanes));
    auto firsts = VectorAt<lanes>(m, at_m), seconds = VectorAt<lanes>(v, at_v), weights = VectorAt<lanes>(w, at_w);
    for (int l = 0; l < lanes; ++l) step(lr, of.weight_decay, scale * gradient[l], firsts[l], seconds[l], weights[l]);
    PutAt(m, at_m, firsts);
    PutAt(v, at_v, seconds);
    PutAt(w, at_w, weights);
  }
};

// Updates averages. `gate` is null where updates obey none.
template <int lanes>
struct AverageElements {
  Walk walk;  // w, e
  const double* gate;
  const float* w;
  float* e;
  float rest;  // 1 − decay
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count / lanes; }
  COLONNADE_THREAD {
    if (gate != nullptr && gate[program::Gate::kIsOpen] == 0) return;
    const int64_t at = walk.At(1, i * lanes);
    const auto weights = VectorAt<lanes>(w, walk.At(0, i * lanes));
    auto averages = VectorAt<lanes>(e, at);
    for (int l = 0; l < lanes; ++l) averages[l] += rest * (weights[l] - averages[l]);
    PutAt(e, at, averages);
  }
};

// Neighbouring elements whose squares are added up, and the blocks that do it.
struct SummedRange {
  const float* x;
  int64_t elements;
  int64_t first_block, blocks;
  double* sum;
};

// partial[block] = the sum of squares of what the block's threads see of its range, in double.
struct SquareRanges {
  static constexpr int kMostRanges = 64;
  int count;
  SummedRange ranges[kMostRanges];
  double* partial;
  using Part = double;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return ranges[count - 1].first_block + ranges[count - 1].blocks; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t block, int row, int rows, int) const {
    int r = 0;
    while (r + 1 < count && ranges[r + 1].first_block <= block) ++r;
    const SummedRange& range = ranges[r];
    double sum = 0;
    for (int64_t i = (block - range.first_block) * rows + row; i < range.elements; i += range.blocks * rows) {
      const double value = range.x[i];
      sum += value * value;
    }
    return sum;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a + b; }
  COLONNADE_HOST_DEVICE void Put(int64_t block, int, Part sum) const { partial[block] = sum; }
};
// Adds up the sums of a range's blocks.
struct SumSquares {
  SquareRanges of;
  using Part = double;
  COLONNADE_HOST_DEVICE int64_t blocks() const { return of.count; }
  COLONNADE_HOST_DEVICE int columns() const { return 1; }
  COLONNADE_HOST_DEVICE Part PartOf(int64_t r, int row, int rows, int) const {
    const SummedRange& range = of.ranges[r];
    double sum = 0;
    for (int64_t i = row; i < range.blocks; i += rows) sum += of.partial[range.first_block + i];
    return sum;
  }
  COLONNADE_HOST_DEVICE static Part Merge(Part a, Part b) { return a + b; }
  COLONNADE_HOST_DEVICE void Put(int64_t r, int, Part sum) const { *of.ranges[r].sum = sum; }
};

// A thread for each of some parameters, from `first` of `all` on; the first of all writes the gate.
struct OpenGate {
  static constexpr int kMostParameters = 128;
  const double* norms;  // [all,2]
  int64_t norm_stride[2];
  double *gate, *trust;
  int64_t all, first;
  int parameters;
  double clip_norm, trust_coefficient;
  double weight_decay[kMostParameters];
  bool adapted[kMostParameters];
  COLONNADE_HOST_DEVICE int64_t count() const { return parameters; }
  COLONNADE_THREAD {
    double total = 0;
    for (int64_t p = 0; p < all; ++p) total += norms[p * norm_stride[0]];
    const double scale = program::ClipScale(clip_norm, total);
    const int64_t p = first + i;
    const double* squares = norms + p * norm_stride[0];
    trust[p] =
        adapted[i] ? program::TrustRatio(trust_coefficient, weight_decay[i], scale, squares[0], squares[norm_stride[1]]) : 1;
    if (p != 0) return;
    gate[program::Gate::kIsOpen] = program::IsFinite(total) ? 1 : 0;
    gate[program::Gate::kGradientScale] = scale;
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_UPDATE_KERNELS_H_
