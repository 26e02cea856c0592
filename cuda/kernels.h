// Our own kernels: what thread i of each does. The mathematics of elements is program/math.h's.
//
// Each is a plain struct of numbers and addresses with `count` threads and operator()(i), which runs on the device
// (kernels.cu starts it) and, in tests, on the host in a loop. Threads of one kernel never write what another one of them
// reads or writes, so that results do not depend on their order; sums that span threads are made in two kernels, in a fixed
// order. T is the type in which elements are stored, float or BFloat16; arithmetic is that of float. A thread does `lanes`
// neighbouring elements, which it loads and stores at once: as many as 16 bytes hold, or one where they do not lie so
// (vector.h).
#ifndef COLONNADE_CUDA_KERNELS_H_
#define COLONNADE_CUDA_KERNELS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <variant>

#include "cuda/vector.h"
#include "cuda/walk.h"
#include "program/bfloat16.h"
#include "program/math.h"
#include "program/op.h"

namespace colonnade::cuda {

#define COLONNADE_THREAD COLONNADE_HOST_DEVICE inline void operator()(int64_t i) const

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

// partial[i] = 1 if all elements i, i + parts, … of x are finite; and then all[i] = 1 if all flags i, i + parts, … are.
struct FinitePartial {
  Walk walk;  // x
  const float* x;
  int32_t* partial;
  int64_t parts;
  COLONNADE_HOST_DEVICE int64_t count() const { return parts; }
  COLONNADE_THREAD {
    // Neighbouring threads read neighbouring elements.
    bool finite = true;
    for (int64_t j = i; j < walk.count; j += parts) finite = finite && program::IsFinite(x[walk.At(0, j)]);
    partial[i] = finite ? 1 : 0;
  }
};
struct AllFlags {
  const int32_t* flags;
  int64_t flag_count;
  int32_t* all;
  int64_t parts;
  COLONNADE_HOST_DEVICE int64_t count() const { return parts; }
  COLONNADE_THREAD {
    int32_t every = 1;
    for (int64_t j = i; j < flag_count; j += parts) every &= flags[j];
    all[i] = every;
  }
};

// partial[part][k] = Σ over the part's positions of dy[·, k, ·], and then db[k] = Σ over parts; in double.
template <class T, int lanes>
struct ChannelSumsPartial {
  Walk walk;  // positions: dy with k = 0
  const T* dy;
  int64_t channels, channel_stride, parts;
  double* partial;
  COLONNADE_HOST_DEVICE int64_t count() const { return parts * (channels / lanes); }
  COLONNADE_THREAD {
    const int64_t part = Quotient(i, channels / lanes), k = (i - part * (channels / lanes)) * lanes;
    const Chunk chunk = ChunkOf(walk.count, parts, part);
    double sums[lanes] = {};
    for (int64_t j = chunk.begin; j < chunk.end; ++j) {
      const auto values = VectorAt<lanes>(dy, walk.At(0, j) + k * channel_stride);
      for (int l = 0; l < lanes; ++l) sums[l] += values[l];
    }
    for (int l = 0; l < lanes; ++l) partial[part * channels + k + l] = sums[l];
  }
};
struct ChannelSumsTotal {
  const double* partial;
  int64_t channels, parts;
  float* db;
  int64_t db_stride;
  COLONNADE_HOST_DEVICE int64_t count() const { return channels; }
  COLONNADE_THREAD {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[part * channels + i];
    db[i * db_stride] = static_cast<float>(sum);
  }
};

// An image tensor [n, c, h, w] of any strides, and element (n, c, h, w) by its number.
struct Image {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t stride_n = 0, stride_c = 0, stride_h = 0, stride_w = 0;
  COLONNADE_HOST_DEVICE int64_t count() const { return n * c * h * w; }
  COLONNADE_HOST_DEVICE int64_t At(int64_t in, int64_t ic, int64_t ih, int64_t iw) const {
    return in * stride_n + ic * stride_c + ih * stride_h + iw * stride_w;
  }
};
struct Pixel {
  int64_t n, c, h, w;
};
// Channels innermost, as they lie in memory; c is the first of `lanes` channels.
template <int lanes>
COLONNADE_HOST_DEVICE inline Pixel PixelOf(const Image& image, int64_t i) {
  const int64_t vectors = image.c / lanes;
  Pixel pixel;
  const int64_t position = Quotient(i, vectors), row = Quotient(position, image.w);
  pixel.c = (i - position * vectors) * lanes;
  pixel.w = position - row * image.w;
  pixel.n = Quotient(row, image.h);
  pixel.h = row - pixel.n * image.h;
  return pixel;
}

template <class T, int lanes>
struct MaxPoolForwardElements {
  program::Window window;
  Image in, out, cells;  // of x, y and argmax
  const T* x;
  T* y;
  uint8_t* argmax;  // null in evaluation
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel o = PixelOf<lanes>(out, i);
    Vector<T, lanes> largest;
    Vector<uint8_t, lanes> cell;
    bool any = false;
    for (int l = 0; l < lanes; ++l) largest[l] = static_cast<T>(0.0f), cell[l] = static_cast<uint8_t>(-1);
    for (int64_t r = 0; r < window.size_h; ++r) {
      const int64_t h = o.h * window.stride_h + r - window.pad_h;
      if (h < 0 || h >= in.h) continue;
      for (int64_t s = 0; s < window.size_w; ++s) {
        const int64_t w = o.w * window.stride_w + s - window.pad_w;
        if (w < 0 || w >= in.w) continue;
        const auto value = VectorAt<lanes>(x, in.At(o.n, o.c, h, w));
        for (int l = 0; l < lanes; ++l) {
          if (any && !(value[l] > largest[l])) continue;
          largest[l] = value[l];
          cell[l] = static_cast<uint8_t>(r * window.size_w + s);
        }
        any = true;
      }
    }
    PutAt(y, out.At(o.n, o.c, o.h, o.w), largest);
    if (argmax != nullptr) PutAt(argmax, cells.At(o.n, o.c, o.h, o.w), cell);
  }
};

// The outputs whose windows hold row (or column) `at`: [first, end).
COLONNADE_HOST_DEVICE inline Chunk WindowsOver(int64_t at, int64_t size, int64_t stride, int64_t pad, int64_t outputs) {
  const int64_t last = Quotient(at + pad, stride);
  const int64_t first = at + pad < size ? 0 : Quotient(at + pad - size, stride) + 1;
  return {first, last + 1 < outputs ? last + 1 : outputs};
}

template <class T, int lanes>
struct MaxPoolBackwardElements {
  program::Window window;
  Image in, out, cells;  // of dx, dy and argmax
  const uint8_t* argmax;
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return in.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(in, i);
    const Chunk rows = WindowsOver(at.h, window.size_h, window.stride_h, window.pad_h, out.h);
    const Chunk columns = WindowsOver(at.w, window.size_w, window.stride_w, window.pad_w, out.w);
    float sums[lanes] = {};
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const int64_t own =
            (at.h + window.pad_h - p * window.stride_h) * window.size_w + at.w + window.pad_w - q * window.stride_w;
        const auto cell = VectorAt<lanes>(argmax, cells.At(at.n, at.c, p, q));
        const auto gradient = VectorAt<lanes>(dy, out.At(at.n, at.c, p, q));
        for (int l = 0; l < lanes; ++l) {
          if (cell[l] == own) sums[l] += gradient[l];
        }
      }
    }
    PutAt(dx, in.At(at.n, at.c, at.h, at.w), Rounded<T>(sums));
  }
};

// Cells of a window, from `first`, that lie in [0, extent), or all of them.
COLONNADE_HOST_DEVICE inline int64_t CellsInside(int64_t first, int64_t size, int64_t extent) {
  const int64_t begin = first < 0 ? 0 : first, end = first + size < extent ? first + size : extent;
  return end - begin;
}
COLONNADE_HOST_DEVICE inline float WindowDivisor(const program::Window& w, bool count_pad, const Image& in, int64_t p,
                                                 int64_t q) {
  if (count_pad) return static_cast<float>(w.size_h * w.size_w);
  return static_cast<float>(CellsInside(p * w.stride_h - w.pad_h, w.size_h, in.h) *
                            CellsInside(q * w.stride_w - w.pad_w, w.size_w, in.w));
}

template <class T, int lanes>
struct AvgPoolForwardElements {
  program::Window window;
  bool count_pad;
  Image in, out;
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel o = PixelOf<lanes>(out, i);
    float sums[lanes] = {};
    for (int64_t r = 0; r < window.size_h; ++r) {
      const int64_t h = o.h * window.stride_h + r - window.pad_h;
      if (h < 0 || h >= in.h) continue;
      for (int64_t s = 0; s < window.size_w; ++s) {
        const int64_t w = o.w * window.stride_w + s - window.pad_w;
        if (w < 0 || w >= in.w) continue;
        const auto value = VectorAt<lanes>(x, in.At(o.n, o.c, h, w));
        for (int l = 0; l < lanes; ++l) sums[l] += value[l];
      }
    }
    const float divisor = WindowDivisor(window, count_pad, in, o.h, o.w);
    for (int l = 0; l < lanes; ++l) sums[l] /= divisor;
    PutAt(y, out.At(o.n, o.c, o.h, o.w), Rounded<T>(sums));
  }
};

template <class T, int lanes>
struct AvgPoolBackwardElements {
  program::Window window;
  bool count_pad;
  Image in, out;  // of dx and dy
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return in.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(in, i);
    const Chunk rows = WindowsOver(at.h, window.size_h, window.stride_h, window.pad_h, out.h);
    const Chunk columns = WindowsOver(at.w, window.size_w, window.stride_w, window.pad_w, out.w);
    float sums[lanes] = {};
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const float divisor = WindowDivisor(window, count_pad, in, p, q);
        const auto gradient = VectorAt<lanes>(dy, out.At(at.n, at.c, p, q));
        for (int l = 0; l < lanes; ++l) sums[l] += gradient[l] / divisor;
      }
    }
    PutAt(dx, in.At(at.n, at.c, at.h, at.w), Rounded<T>(sums));
  }
};

// The channels of c's window, which stays in c's block of `block` channels; those of lanes together begin with the first's
// and end with the last's, in one block.
COLONNADE_HOST_DEVICE inline Chunk ChannelsAround(int64_t c, int64_t size, int64_t block) {
  const int64_t begin = Quotient(c, block) * block, first = c - size / 2, end = c + size / 2 + 1;
  return {first > begin ? first : begin, end < begin + block ? end : begin + block};
}

template <class T, int lanes>
struct LrnForwardElements {
  int64_t size, block;  // channels of a window, and of a block
  float alpha_over_size, beta, k;
  Image in, out, scales;
  const T* x;
  T* y;
  float* s;  // null in evaluation
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel o = PixelOf<lanes>(out, i);
    const int64_t begin = ChannelsAround(o.c, size, block).begin, end = ChannelsAround(o.c + lanes - 1, size, block).end;
    float squares[lanes] = {};
    for (int64_t c = begin; c < end; ++c) {
      const float value = x[in.At(o.n, c, o.h, o.w)];
      for (int l = 0; l < lanes; ++l) {
        const int64_t apart = c - (o.c + l);
        if (-size / 2 <= apart && apart <= size / 2) squares[l] += value * value;
      }
    }
    const auto own = VectorAt<lanes>(x, in.At(o.n, o.c, o.h, o.w));
    Vector<float, lanes> scale;
    float normalised[lanes];
    for (int l = 0; l < lanes; ++l) {
      scale[l] = k + alpha_over_size * squares[l];
      normalised[l] = own[l] * powf(scale[l], -beta);
    }
    PutAt(y, out.At(o.n, o.c, o.h, o.w), Rounded<T>(normalised));
    if (s != nullptr) PutAt(s, scales.At(o.n, o.c, o.h, o.w), scale);
  }
};

// dx_c = dy_c·s_c^−β − 2αβ/size · x_c · Σ_{j: c in j's window} dy_j·x_j·s_j^−(β+1); windows are symmetric.
template <class T, int lanes>
struct LrnBackwardElements {
  int64_t size, block;
  float alpha_over_size, beta;
  Image in, scales, out, back;  // of x, s, dy and dx
  const T* x;
  const float* s;
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return back.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(back, i);
    const int64_t begin = ChannelsAround(at.c, size, block).begin, end = ChannelsAround(at.c + lanes - 1, size, block).end;
    float sums[lanes] = {}, own[lanes] = {};
    for (int64_t c = begin; c < end; ++c) {
      const float scale = s[scales.At(at.n, c, at.h, at.w)], gradient = dy[out.At(at.n, c, at.h, at.w)];
      const float power = powf(scale, -beta - 1.0f);
      const float term = gradient * float{x[in.At(at.n, c, at.h, at.w)]} * power;
      for (int l = 0; l < lanes; ++l) {
        const int64_t apart = c - (at.c + l);
        if (-size / 2 <= apart && apart <= size / 2) sums[l] += term;
        if (apart == 0) own[l] = gradient * (power * scale);
      }
    }
    const auto value = VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w));
    for (int l = 0; l < lanes; ++l) own[l] -= 2.0f * alpha_over_size * beta * value[l] * sums[l];
    PutAt(dx, back.At(at.n, at.c, at.h, at.w), Rounded<T>(own));
  }
};

// Of the logits that one thread has seen: their largest, Σ exp(x − largest), and how many are ahead of the label's.
struct SoftmaxPart {
  float largest;
  int32_t ahead;
  double sum;
};
// What a sample, or several, add to the metrics.
struct SampleMetrics {
  double loss;
  int32_t top1, top5, counts;  // counts: labels ≥ 0
};

// parts[n][part] of the logits part, part + parts_of_sample, … of sample n: neighbouring threads read neighbouring classes.
template <class T>
struct SoftmaxParts {
  int64_t samples, classes, parts_of_sample;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  SoftmaxPart* parts;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * parts_of_sample; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, parts_of_sample), first = i - n * parts_of_sample;
    const T* x = logits + n * logits_stride_n;
    const int32_t label = labels[n * labels_stride];
    const bool has_own = label >= 0 && label < classes;
    const float own = has_own ? float{x[label * logits_stride_k]} : 0.0f;
    SoftmaxPart part = {x[first * logits_stride_k], 0, 0};
    for (int64_t c = first; c < classes; c += parts_of_sample) {
      const float other = x[c * logits_stride_k];
      if (other > part.largest) part.largest = other;
      // A NaN is ahead of all.
      if (has_own && c != label && (!(other <= own) || (other == own && c < label))) ++part.ahead;
    }
    // Where all of the part are −∞ its share of the sum is none.
    for (int64_t c = first; c < classes && part.largest != -INFINITY; c += parts_of_sample) {
      part.sum += expf(x[c * logits_stride_k] - part.largest);
    }
    parts[i] = part;
  }
};
// A sample's parts become one, and its metrics. A label that is no class makes the loss NaN, which the host sees.
template <class T>
struct SoftmaxTotals {
  int64_t samples, classes, parts_of_sample;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  const SoftmaxPart* parts;
  SoftmaxPart* totals;
  SampleMetrics* metrics;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples; }
  COLONNADE_THREAD {
    const SoftmaxPart* of_sample = parts + i * parts_of_sample;
    SoftmaxPart total = {of_sample[0].largest, 0, 0};
    for (int64_t j = 1; j < parts_of_sample; ++j) {
      if (of_sample[j].largest > total.largest) total.largest = of_sample[j].largest;
    }
    for (int64_t j = 0; j < parts_of_sample; ++j) {
      total.sum += of_sample[j].sum * exp(static_cast<double>(of_sample[j].largest) - total.largest);
      total.ahead += of_sample[j].ahead;
    }
    totals[i] = total;
    const int32_t label = labels[i * labels_stride];
    SampleMetrics of = {0, 0, 0, label >= 0 ? 1 : 0};
    if (label >= classes) {
      of.loss = static_cast<double>(NAN);
    } else if (label >= 0) {
      const float own = logits[i * logits_stride_n + label * logits_stride_k];
      of.loss = log(total.sum) + (static_cast<double>(total.largest) - own);
      of.top1 = total.ahead < 1 ? 1 : 0;
      of.top5 = total.ahead < 5 ? 1 : 0;
    }
    metrics[i] = of;
  }
};
// p = exp(x − largest) / Σ.
template <class T>
struct SoftmaxElements {
  int64_t samples, classes;
  const T* logits;
  int64_t logits_stride_n, logits_stride_k;
  const SoftmaxPart* totals;
  float* p;
  int64_t p_stride_n, p_stride_k;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * classes; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, classes), c = i - n * classes;
    const float e = expf(logits[n * logits_stride_n + c * logits_stride_k] - totals[n].largest);
    p[n * p_stride_n + c * p_stride_k] = static_cast<float>(e / totals[n].sum);
  }
};
// all[i] = Σ of those i, i + parts, …; with one part, as metrics f64.
struct SumMetrics {
  int64_t count_in, parts;
  const SampleMetrics* of;
  SampleMetrics* all;
  double* metrics;  // null but for one part
  COLONNADE_HOST_DEVICE int64_t count() const { return parts; }
  COLONNADE_THREAD {
    SampleMetrics sum = {0, 0, 0, 0};
    for (int64_t n = i; n < count_in; n += parts) {
      sum.loss += of[n].loss;
      sum.top1 += of[n].top1;
      sum.top5 += of[n].top5;
      sum.counts += of[n].counts;
    }
    if (metrics == nullptr) {
      all[i] = sum;
      return;
    }
    metrics[program::kLossSum] = sum.loss;
    metrics[program::kTop1Hits] = sum.top1;
    metrics[program::kTop5Hits] = sum.top5;
    metrics[program::kLabels] = sum.counts;
  }
};

template <class T>
struct SoftmaxBackwardElements {
  int64_t samples, classes;
  const double* scalars;
  const float* p;
  int64_t p_stride_n, p_stride_k;
  const int32_t* labels;
  int64_t labels_stride;
  T* dlogits;
  int64_t d_stride_n, d_stride_k;
  COLONNADE_HOST_DEVICE int64_t count() const { return samples * classes; }
  COLONNADE_THREAD {
    const int64_t n = Quotient(i, classes), c = i - n * classes;
    const int32_t label = labels[n * labels_stride];
    const float scale = static_cast<float>(1.0 / scalars[program::kLabelCount]);
    const float d = label < 0 ? 0.0f : (p[n * p_stride_n + c * p_stride_k] - (c == label ? 1.0f : 0.0f)) * scale;
    dlogits[n * d_stride_n + c * d_stride_k] = static_cast<T>(d);
  }
};

#undef COLONNADE_THREAD

// All kernels on elements of T, in vectors of `lanes`.
template <class T, int lanes, class... More>
using KernelsOf =
    std::variant<SumElements<T, lanes>, AddBias<T, lanes>, ReluForwardElements<T, lanes>, ReluBackwardElements<T, lanes>,
                 DropoutElements<T, lanes>, ChannelSumsPartial<T, lanes>, MaxPoolForwardElements<T, lanes>,
                 MaxPoolBackwardElements<T, lanes>, AvgPoolForwardElements<T, lanes>, AvgPoolBackwardElements<T, lanes>,
                 LrnForwardElements<T, lanes>, LrnBackwardElements<T, lanes>, More...>;

template <class A, class B>
struct BothOf;
template <class... A, class... B>
struct BothOf<std::variant<A...>, std::variant<B...>> {
  using Type = std::variant<A..., B...>;
};

using KernelsOfFloat = BothOf<KernelsOf<float, 1, SgdElements<1>, SoftmaxParts<float>, SoftmaxTotals<float>,
                                        SoftmaxElements<float>, SoftmaxBackwardElements<float>>,
                              KernelsOf<float, kLanesOf<float>, SgdElements<kLanesOf<float>>>>::Type;

using KernelsOfBFloat16 = BothOf<KernelsOf<program::BFloat16, 1, ConvertElements<float, program::BFloat16, 1>,
                                           ConvertElements<program::BFloat16, float, 1>, SoftmaxParts<program::BFloat16>,
                                           SoftmaxTotals<program::BFloat16>, SoftmaxElements<program::BFloat16>,
                                           SoftmaxBackwardElements<program::BFloat16>>,
                                 KernelsOf<program::BFloat16, kLanesOf<program::BFloat16>,
                                           ConvertElements<float, program::BFloat16, kLanesOf<program::BFloat16>>,
                                           ConvertElements<program::BFloat16, float, kLanesOf<program::BFloat16>>>>::Type;

using Kernel = BothOf<std::variant<CopyElements, SumElements<int32_t, 1>, SumElements<double, 1>, FinitePartial, AllFlags,
                                   ChannelSumsTotal, SumMetrics>,
                      BothOf<KernelsOfFloat, KernelsOfBFloat16>::Type>::Type;

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_KERNELS_H_
