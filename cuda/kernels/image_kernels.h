// Kernels over images: pooling, and normalisation across channels; kernels.h says how they are written.
#ifndef COLONNADE_CUDA_IMAGE_KERNELS_H_
#define COLONNADE_CUDA_IMAGE_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "cuda/kernels/elementwise_kernels.h"
#include "cuda/kernels/vector.h"
#include "program/formulas/lrn.h"
#include "program/formulas/window.h"
#include "program/op.h"

namespace colonnade::cuda {

// An image tensor [n, c, h, w] of any strides. At returns the offset of an element.
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
// Returns the pixel and the first of the `lanes` channels of vector i; vectors are counted with channels innermost, as they
// lie in memory.
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

// Calls f(cell, h, w) for the cells of output o's window that lie in the image, in their order.
template <class F>
COLONNADE_HOST_DEVICE inline void ForEachCell(const program::Window& window, const Image& in, const Pixel& o, const F& f) {
  for (int64_t r = 0; r < window.size_h; ++r) {
    const int64_t h = o.h * window.stride_h + r - window.pad_top;
    if (h < 0 || h >= in.h) continue;
    for (int64_t s = 0; s < window.size_w; ++s) {
      const int64_t w = o.w * window.stride_w + s - window.pad_left;
      if (w >= 0 && w < in.w) f(r * window.size_w + s, h, w);
    }
  }
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
    ForEachCell(window, in, o, [&](int64_t number, int64_t h, int64_t w) {
      const auto value = VectorAt<lanes>(x, in.At(o.n, o.c, h, w));
      for (int l = 0; l < lanes; ++l) {
        if (any && !(value[l] > largest[l])) continue;
        largest[l] = value[l];
        cell[l] = static_cast<uint8_t>(number);
      }
      any = true;
    });
    PutAt(y, out.At(o.n, o.c, o.h, o.w), largest);
    if (argmax != nullptr) PutAt(argmax, cells.At(o.n, o.c, o.h, o.w), cell);
  }
};

// Returns the outputs [first, end) whose windows hold row (or column) `at`.
COLONNADE_HOST_DEVICE inline Chunk WindowsOver(int64_t at, int64_t size, int64_t stride, int64_t pad, int64_t outputs) {
  const int64_t last = Quotient(at + pad, stride);
  const int64_t first = at + pad < size ? 0 : Quotient(at + pad - size, stride) + 1;
  return {first, last + 1 < outputs ? last + 1 : outputs};
}

// Calls f(p, q) for the outputs whose windows hold pixel `at`.
template <class F>
COLONNADE_HOST_DEVICE inline void ForEachWindow(const program::Window& window, const Pixel& at, const Image& out,
                                                const F& f) {
  const Chunk rows = WindowsOver(at.h, window.size_h, window.stride_h, window.pad_top, out.h);
  const Chunk columns = WindowsOver(at.w, window.size_w, window.stride_w, window.pad_left, out.w);
  for (int64_t p = rows.begin; p < rows.end; ++p) {
    for (int64_t q = columns.begin; q < columns.end; ++q) f(p, q);
  }
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
    float sums[lanes] = {};
    ForEachWindow(window, at, out, [&](int64_t p, int64_t q) {
      const int64_t own =
          (at.h + window.pad_top - p * window.stride_h) * window.size_w + at.w + window.pad_left - q * window.stride_w;
      const auto cell = VectorAt<lanes>(argmax, cells.At(at.n, at.c, p, q));
      const auto gradient = VectorAt<lanes>(dy, out.At(at.n, at.c, p, q));
      for (int l = 0; l < lanes; ++l) {
        if (cell[l] == own) sums[l] += gradient[l];
      }
    });
    PutAt(dx, in.At(at.n, at.c, at.h, at.w), Rounded<T>(sums));
  }
};

COLONNADE_HOST_DEVICE inline float WindowDivisor(const program::Window& w, bool count_pad, const Image& in, int64_t p,
                                                 int64_t q) {
  return static_cast<float>(program::CountedCells(p * w.stride_h - w.pad_top, w.size_h, in.h, count_pad ? w.pad_top : 0) *
                            program::CountedCells(q * w.stride_w - w.pad_left, w.size_w, in.w, count_pad ? w.pad_left : 0));
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
    ForEachCell(window, in, o, [&](int64_t, int64_t h, int64_t w) {
      const auto value = VectorAt<lanes>(x, in.At(o.n, o.c, h, w));
      for (int l = 0; l < lanes; ++l) sums[l] += value[l];
    });
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
    float sums[lanes] = {};
    ForEachWindow(window, at, out, [&](int64_t p, int64_t q) {
      const float divisor = WindowDivisor(window, count_pad, in, p, q);
      const auto gradient = VectorAt<lanes>(dy, out.At(at.n, at.c, p, q));
      for (int l = 0; l < lanes; ++l) sums[l] += gradient[l] / divisor;
    });
    PutAt(dx, in.At(at.n, at.c, at.h, at.w), Rounded<T>(sums));
  }
};

// Returns the channels of c's window, which stays in c's block of `block` channels.
COLONNADE_HOST_DEVICE inline Chunk ChannelsAround(int64_t c, int64_t size, int64_t block) {
  const int64_t begin = Quotient(c, block) * block, first = c - size / 2, end = c + size / 2 + 1;
  return {first > begin ? first : begin, end < begin + block ? end : begin + block};
}

// Returns s^−β.
COLONNADE_HOST_DEVICE inline float ToMinus(float beta, float s) {
  return beta == 0.75f ? program::ToMinusThreeQuarters(s) : powf(s, -beta);
}

struct LrnWindow {
  int64_t size, block;  // channels of a window, and of a block
  float alpha_over_size, beta, k;

  // Returns the channels that the windows of [c, c + lanes), which lie in one block, cover together.
  template <int lanes>
  COLONNADE_HOST_DEVICE Chunk Around(int64_t c) const {
    return {ChannelsAround(c, size, block).begin, ChannelsAround(c + lanes - 1, size, block).end};
  }
  COLONNADE_HOST_DEVICE bool Reaches(int64_t from, int64_t to) const {
    return -size / 2 <= to - from && to - from <= size / 2;
  }
};

// Returns s of the channels [at.c, at.c + lanes), which lie in one block.
template <int lanes, class T>
COLONNADE_HOST_DEVICE Vector<float, lanes> LrnScales(const LrnWindow& window, const Image& in, const T* x, const Pixel& at) {
  const Chunk channels = window.Around<lanes>(at.c);
  float squares[lanes] = {};
  for (int64_t c = channels.begin; c < channels.end; ++c) {
    const float value = x[in.At(at.n, c, at.h, at.w)];
    for (int l = 0; l < lanes; ++l) {
      if (window.Reaches(at.c + l, c)) squares[l] += value * value;
    }
  }
  Vector<float, lanes> scales;
  for (int l = 0; l < lanes; ++l) scales[l] = window.k + window.alpha_over_size * squares[l];
  return scales;
}

template <class T, int lanes>
struct LrnForwardElements {
  LrnWindow window;
  Image in, out;
  const T* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel o = PixelOf<lanes>(out, i);
    const Vector<float, lanes> scales = LrnScales<lanes>(window, in, x, o);
    const auto own = VectorAt<lanes>(x, in.At(o.n, o.c, o.h, o.w));
    float normalised[lanes];
    for (int l = 0; l < lanes; ++l) normalised[l] = own[l] * ToMinus(window.beta, scales[l]);
    PutAt(y, out.At(o.n, o.c, o.h, o.w), Rounded<T>(normalised));
  }
};

// dx_c = dy_c·s_c^−β − 2αβ/size · x_c · Σ_{j: c in j's window} dy_j·x_j·s_j^−(β+1); windows are symmetric.
template <class T, int lanes>
struct LrnBackwardElements {
  LrnWindow window;
  Image in, out, back;  // of x, dy and dx
  const T *x, *dy;
  T* dx;
  COLONNADE_HOST_DEVICE int64_t count() const { return back.count() / lanes; }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<lanes>(back, i);
    const Chunk channels = window.Around<lanes>(at.c);
    float sums[lanes] = {}, own[lanes] = {};
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const float scale = LrnScales<1>(window, in, x, {at.n, c, at.h, at.w})[0];
      const float gradient = dy[out.At(at.n, c, at.h, at.w)], power = ToMinus(window.beta, scale);
      const float term = gradient * float{x[in.At(at.n, c, at.h, at.w)]} * (power / scale);
      for (int l = 0; l < lanes; ++l) {
        if (window.Reaches(at.c + l, c)) sums[l] += term;
        if (c == at.c + l) own[l] = gradient * power;
      }
    }
    const auto value = VectorAt<lanes>(x, in.At(at.n, at.c, at.h, at.w));
    for (int l = 0; l < lanes; ++l) own[l] -= 2.0f * window.alpha_over_size * window.beta * value[l] * sums[l];
    PutAt(dx, back.At(at.n, at.c, at.h, at.w), Rounded<T>(own));
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_IMAGE_KERNELS_H_
