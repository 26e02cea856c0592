// Our own kernels: what thread i of each does. The mathematics of elements is program/math.h's.
//
// Each is a plain struct of numbers and addresses with `count` threads and operator()(i), which runs on the device
// (kernels.cu starts it) and, in tests, on the host in a loop. Threads of one kernel never write what another one of them
// reads or writes, so that results do not depend on their order; sums that span threads are made in two kernels, in a fixed
// order. T is the type in which elements are stored, float or BFloat16; arithmetic is that of float.
#ifndef COLONNADE_CUDA_KERNELS_H_
#define COLONNADE_CUDA_KERNELS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <variant>

#include "cuda/walk.h"
#include "program/bfloat16.h"
#include "program/math.h"
#include "program/op.h"

namespace colonnade::cuda {

#define COLONNADE_THREAD COLONNADE_HOST_DEVICE inline void operator()(int64_t i) const

// y = x, of elements of 1, 2, 4 or 8 bytes.
struct CopyElements {
  Walk walk;  // x, y
  const void* x;
  void* y;
  int element_bytes;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    const int64_t from = walk.At(0, i), to = walk.At(1, i);
    if (element_bytes == 4) {
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
template <class From, class To>
struct ConvertElements {
  Walk walk;  // x, y
  const From* x;
  To* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD { y[walk.At(1, i)] = static_cast<To>(static_cast<float>(x[walk.At(0, i)])); }
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
template <class T>
struct SumElements {
  Walk walk;  // inputs, then outputs
  int inputs, outputs;
  const T* x[kMostOperands];
  T* y[kMostOperands];
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    typename AccumulatorOf<T>::Type sum = x[0][walk.At(0, i)];
    for (int j = 1; j < inputs; ++j) sum += x[j][walk.At(j, i)];
    for (int j = 0; j < outputs; ++j) y[j][walk.At(inputs + j, i)] = static_cast<T>(sum);
  }
};

// y = x + b, or max(x + b, 0).
template <class T>
struct AddBias {
  Walk walk;  // x, b repeated, y
  const T *x, *b;
  T* y;
  bool relu;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    const float sum = float{x[walk.At(0, i)]} + float{b[walk.At(1, i)]};
    y[walk.At(2, i)] = static_cast<T>(relu ? program::Relu(sum) : sum);
  }
};

template <class T>
struct ReluForwardElements {
  Walk walk;  // x, y
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD { y[walk.At(1, i)] = program::Relu(x[walk.At(0, i)]); }
};

template <class T>
struct ReluBackwardElements {
  Walk walk;  // y, dy, dx
  const T *y, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD { dx[walk.At(2, i)] = program::ReluGradient(y[walk.At(0, i)], dy[walk.At(1, i)]); }
};

template <class T>
struct DropoutElements {
  Walk walk;  // x, y, index in the global tensor (no memory)
  const double* scalars;
  const T* x;
  T* y;
  double rate;
  uint32_t stream;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    const uint64_t element = static_cast<uint64_t>(walk.At(2, i));
    const program::Keep4 keep = program::DropoutKeep(static_cast<uint64_t>(scalars[program::kSeed]), stream,
                                                     static_cast<uint64_t>(scalars[program::kStep]), element / 4, rate);
    const float scale = static_cast<float>(1.0 / (1.0 - rate));
    y[walk.At(1, i)] = static_cast<T>(keep.keep[element % 4] ? x[walk.At(0, i)] * scale : 0.0f);
  }
};

struct SgdElements {
  Walk walk;  // g, v, w
  const double* scalars;
  const float* g;
  float *v, *w;
  float momentum, weight_decay;
  COLONNADE_HOST_DEVICE int64_t count() const { return walk.count; }
  COLONNADE_THREAD {
    const float lr = static_cast<float>(scalars[program::kLearningRate]);
    program::SgdStep(lr, momentum, weight_decay, g[walk.At(0, i)], v[walk.At(1, i)], w[walk.At(2, i)]);
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
template <class T>
struct ChannelSumsPartial {
  Walk walk;  // positions: dy with k = 0
  const T* dy;
  int64_t channels, channel_stride, parts;
  double* partial;
  COLONNADE_HOST_DEVICE int64_t count() const { return parts * channels; }
  COLONNADE_THREAD {
    const int64_t part = i / channels, k = i % channels;
    const Chunk chunk = ChunkOf(walk.count, parts, part);
    double sum = 0;
    for (int64_t j = chunk.begin; j < chunk.end; ++j) sum += dy[walk.At(0, j) + k * channel_stride];
    partial[i] = sum;
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
// Channels innermost, as they lie in memory.
COLONNADE_HOST_DEVICE inline Pixel PixelOf(const Image& image, int64_t i) {
  Pixel pixel;
  pixel.c = i % image.c;
  i /= image.c;
  pixel.w = i % image.w;
  i /= image.w;
  pixel.h = i % image.h;
  pixel.n = i / image.h;
  return pixel;
}

template <class T>
struct MaxPoolForwardElements {
  program::Window window;
  Image in, out, cells;  // of x, y and argmax
  const T* x;
  T* y;
  uint8_t* argmax;  // null in evaluation
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count(); }
  COLONNADE_THREAD {
    const Pixel o = PixelOf(out, i);
    float largest = 0;
    int64_t cell = -1;
    for (int64_t r = 0; r < window.size_h; ++r) {
      const int64_t h = o.h * window.stride_h + r - window.pad_h;
      if (h < 0 || h >= in.h) continue;
      for (int64_t s = 0; s < window.size_w; ++s) {
        const int64_t w = o.w * window.stride_w + s - window.pad_w;
        if (w < 0 || w >= in.w) continue;
        const float value = x[in.At(o.n, o.c, h, w)];
        if (cell >= 0 && !(value > largest)) continue;
        largest = value;
        cell = r * window.size_w + s;
      }
    }
    y[out.At(o.n, o.c, o.h, o.w)] = static_cast<T>(largest);
    if (argmax != nullptr) argmax[cells.At(o.n, o.c, o.h, o.w)] = static_cast<uint8_t>(cell);
  }
};

// The outputs whose windows hold row (or column) `at`: [first, end).
COLONNADE_HOST_DEVICE inline Chunk WindowsOver(int64_t at, int64_t size, int64_t stride, int64_t pad, int64_t outputs) {
  const int64_t last = (at + pad) / stride;
  const int64_t first = at + pad < size ? 0 : (at + pad - size) / stride + 1;
  return {first, last + 1 < outputs ? last + 1 : outputs};
}

template <class T>
struct MaxPoolBackwardElements {
  program::Window window;
  Image in, out, cells;  // of dx, dy and argmax
  const uint8_t* argmax;
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return in.count(); }
  COLONNADE_THREAD {
    const Pixel at = PixelOf(in, i);
    const Chunk rows = WindowsOver(at.h, window.size_h, window.stride_h, window.pad_h, out.h);
    const Chunk columns = WindowsOver(at.w, window.size_w, window.stride_w, window.pad_w, out.w);
    float sum = 0;
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        const int64_t cell =
            (at.h + window.pad_h - p * window.stride_h) * window.size_w + at.w + window.pad_w - q * window.stride_w;
        if (argmax[cells.At(at.n, at.c, p, q)] == cell) sum += dy[out.At(at.n, at.c, p, q)];
      }
    }
    dx[in.At(at.n, at.c, at.h, at.w)] = static_cast<T>(sum);
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

template <class T>
struct AvgPoolForwardElements {
  program::Window window;
  bool count_pad;
  Image in, out;
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count(); }
  COLONNADE_THREAD {
    const Pixel o = PixelOf(out, i);
    float sum = 0;
    for (int64_t r = 0; r < window.size_h; ++r) {
      const int64_t h = o.h * window.stride_h + r - window.pad_h;
      if (h < 0 || h >= in.h) continue;
      for (int64_t s = 0; s < window.size_w; ++s) {
        const int64_t w = o.w * window.stride_w + s - window.pad_w;
        if (w >= 0 && w < in.w) sum += x[in.At(o.n, o.c, h, w)];
      }
    }
    y[out.At(o.n, o.c, o.h, o.w)] = static_cast<T>(sum / WindowDivisor(window, count_pad, in, o.h, o.w));
  }
};

template <class T>
struct AvgPoolBackwardElements {
  program::Window window;
  bool count_pad;
  Image in, out;  // of dx and dy
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return in.count(); }
  COLONNADE_THREAD {
    const Pixel at = PixelOf(in, i);
    const Chunk rows = WindowsOver(at.h, window.size_h, window.stride_h, window.pad_h, out.h);
    const Chunk columns = WindowsOver(at.w, window.size_w, window.stride_w, window.pad_w, out.w);
    float sum = 0;
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        sum += dy[out.At(at.n, at.c, p, q)] / WindowDivisor(window, count_pad, in, p, q);
      }
    }
    dx[in.At(at.n, at.c, at.h, at.w)] = static_cast<T>(sum);
  }
};

// The channels of c's window, which stays in c's block of `block` channels.
COLONNADE_HOST_DEVICE inline Chunk ChannelsAround(int64_t c, int64_t size, int64_t block) {
  const int64_t begin = c / block * block, first = c - size / 2, end = c + size / 2 + 1;
  return {first > begin ? first : begin, end < begin + block ? end : begin + block};
}

template <class T>
struct LrnForwardElements {
  int64_t size, block;  // channels of a window, and of a block
  float alpha_over_size, beta, k;
  Image in, out, scales;
  const T* x;
  T* y;
  float* s;  // null in evaluation
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count(); }
  COLONNADE_THREAD {
    const Pixel o = PixelOf(out, i);
    const Chunk channels = ChannelsAround(o.c, size, block);
    float squares = 0;
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const float value = x[in.At(o.n, c, o.h, o.w)];
      squares += value * value;
    }
    const float scale = k + alpha_over_size * squares;
    y[out.At(o.n, o.c, o.h, o.w)] = static_cast<T>(x[in.At(o.n, o.c, o.h, o.w)] * powf(scale, -beta));
    if (s != nullptr) s[scales.At(o.n, o.c, o.h, o.w)] = scale;
  }
};

// dx_c = dy_c·s_c^−β − 2αβ/size · x_c · Σ_{j: c in j's window} dy_j·x_j·s_j^−(β+1); windows are symmetric.
template <class T>
struct LrnBackwardElements {
  int64_t size, block;
  float alpha_over_size, beta;
  Image in, scales, out, back;  // of x, s, dy and dx
  const T* x;
  const float* s;
  const T* dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return back.count(); }
  COLONNADE_THREAD {
    const Pixel at = PixelOf(back, i);
    const Chunk channels = ChannelsAround(at.c, size, block);
    float sum = 0;
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      sum += float{dy[out.At(at.n, c, at.h, at.w)]} * float{x[in.At(at.n, c, at.h, at.w)]} *
             powf(s[scales.At(at.n, c, at.h, at.w)], -beta - 1.0f);
    }
    const float own = float{dy[out.At(at.n, at.c, at.h, at.w)]} * powf(s[scales.At(at.n, at.c, at.h, at.w)], -beta);
    dx[back.At(at.n, at.c, at.h, at.w)] =
        static_cast<T>(own - 2.0f * alpha_over_size * beta * x[in.At(at.n, at.c, at.h, at.w)] * sum);
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
    const int64_t n = i / parts_of_sample, first = i % parts_of_sample;
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
    const int64_t n = i / classes, c = i % classes;
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
    const int64_t n = i / classes, c = i % classes;
    const int32_t label = labels[n * labels_stride];
    const float scale = static_cast<float>(1.0 / scalars[program::kLabelCount]);
    const float d = label < 0 ? 0.0f : (p[n * p_stride_n + c * p_stride_k] - (c == label ? 1.0f : 0.0f)) * scale;
    dlogits[n * d_stride_n + c * d_stride_k] = static_cast<T>(d);
  }
};

#undef COLONNADE_THREAD

// All kernels that store in T.
template <class T, class... More>
using KernelsOf =
    std::variant<SumElements<T>, AddBias<T>, ReluForwardElements<T>, ReluBackwardElements<T>, DropoutElements<T>,
                 ChannelSumsPartial<T>, MaxPoolForwardElements<T>, MaxPoolBackwardElements<T>, AvgPoolForwardElements<T>,
                 AvgPoolBackwardElements<T>, LrnForwardElements<T>, LrnBackwardElements<T>, SoftmaxParts<T>,
                 SoftmaxTotals<T>, SoftmaxElements<T>, SoftmaxBackwardElements<T>, More...>;

template <class A, class B>
struct BothOf;
template <class... A, class... B>
struct BothOf<std::variant<A...>, std::variant<B...>> {
  using Type = std::variant<A..., B...>;
};

using Kernel = BothOf<KernelsOf<float, SumElements<int32_t>, SumElements<double>, CopyElements, SgdElements, FinitePartial,
                                AllFlags, ChannelSumsTotal, SumMetrics>,
                      KernelsOf<program::BFloat16, ConvertElements<float, program::BFloat16>,
                                ConvertElements<program::BFloat16, float>>>::Type;

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_KERNELS_H_
