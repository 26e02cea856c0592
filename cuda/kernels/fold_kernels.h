// Kernels that fold images and filters, and unfold the gradients of filters (space_to_depth.h); kernels.h says how they are
// written.
#ifndef COLONNADE_CUDA_FOLD_KERNELS_H_
#define COLONNADE_CUDA_FOLD_KERNELS_H_

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/image_kernels.h"
#include "cuda/kernels/vector.h"
#include "cuda/load/view.h"

namespace colonnade::cuda {

// How the bytes of each channel are scaled and shifted.
inline constexpr int kMostScaledChannels = 16;
struct ChannelScaling {
  double scale[kMostScaledChannels] = {}, shift[kMostScaledChannels] = {};
  COLONNADE_HOST_DEVICE float Scaled(int64_t channel, uint8_t byte) const {
    return static_cast<float>(scale[channel] * byte + shift[channel]);
  }
};
// Values of a network stay as they are.
struct NoScaling {
  template <class T>
  COLONNADE_HOST_DEVICE float Scaled(int64_t, T value) const {
    return value;
  }
};
template <class From>
using ScalingOf = std::conditional_t<std::is_same_v<From, uint8_t>, ChannelScaling, NoScaling>;

// Where element `e` of a folded pixel comes from: the pixel of its block, and the channel. `c`: channels of the image.
struct Unfolded {
  int64_t h, w, c;
};
COLONNADE_HOST_DEVICE inline Unfolded UnfoldedOf(const SpaceToDepth& fold, int64_t c, int64_t e) {
  const int64_t pixel = Quotient(e, c), h = Quotient(pixel, fold.block_w);
  return {h, pixel - h * fold.block_w, e - pixel * c};
}

// y = x in blocks, and zeros; vectors of channels are whole. Bytes are scaled by channel.
template <class From, class To>
struct FoldPixels {
  static constexpr int kLanes = kLanesOf<To>;
  Image in;
  SpaceToDepth fold;
  const From* x;
  To* y;
  ScalingOf<From> scaling = {};
  COLONNADE_HOST_DEVICE int64_t count() const { return in.n * fold.rows * fold.columns * (fold.channels / kLanes); }
  COLONNADE_THREAD {
    const Pixel block = PixelOf<kLanes>({in.n, fold.channels, fold.rows, fold.columns}, i);
    Unfolded from = UnfoldedOf(fold, in.c, block.c);
    int64_t h = block.h * fold.block_h + from.h - fold.pad_h, w = block.w * fold.block_w + from.w - fold.pad_w;
    int64_t at = in.At(block.n, from.c, h, w);
    float values[kLanes] = {};
    for (int l = 0; l < kLanes; ++l) {
      if (from.h < fold.block_h && h >= 0 && h < in.h && w >= 0 && w < in.w) values[l] = scaling.Scaled(from.c, x[at]);
      at += in.stride_c;
      if (++from.c < in.c) continue;
      from.c = 0, ++w, at += in.stride_w - in.c * in.stride_c;
      if (++from.w < fold.block_w) continue;
      from.w = 0, ++from.h, ++h, w -= fold.block_w, at += in.stride_h - fold.block_w * in.stride_w;
    }
    PutAt(y, i * kLanes, Rounded<To>(values));
  }
};

// y [n,c,h,w] = x scaled by channel, wherever their elements lie.
template <class T>
struct ScalePixels {
  Image in, out;
  ChannelScaling scaling;
  const uint8_t* x;
  T* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count(); }
  COLONNADE_THREAD {
    const Pixel at = PixelOf<1>(out, i);
    y[out.At(at.n, at.c, at.h, at.w)] = static_cast<T>(scaling.Scaled(at.c, x[in.At(at.n, at.c, at.h, at.w)]));
  }
};

// The inverse of FoldPixels: y [n,c,h,w] is read back out of the folded x; the padding is dropped.
template <class From, class To>
struct UnfoldPixels {
  SpaceToDepth fold;
  Image out;
  const From* x;
  To* y;
  COLONNADE_HOST_DEVICE int64_t count() const { return out.count(); }
  COLONNADE_THREAD {
    const Pixel to = PixelOf<1>(out, i);
    const float value = x[to.n * fold.elements() + fold.At(out.c, to.c, to.h, to.w)];
    y[out.At(to.n, to.c, to.h, to.w)] = static_cast<To>(value);
  }
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_FOLD_KERNELS_H_
