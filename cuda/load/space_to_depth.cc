#include "cuda/load/space_to_depth.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cuda/ops/pool.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {

using program::BFloat16;
using program::DType;
using program::Shape;
using program::Window;

namespace {

// A folded convolution in tf32 has at most so many times the products, since filters are padded to whole blocks.
constexpr double kMostProducts = 1.5;

// In blocks of block_h × block_w, which divide the strides.
std::optional<SpaceToDepth> InBlocks(int64_t block_h, int64_t block_w, const Window& window, const Shape& x, const Shape& y,
                                     int64_t lanes) {
  SpaceToDepth fold{.block_h = block_h, .block_w = block_w, .pad_h = window.pad_top, .pad_w = window.pad_left};
  fold.channels = program::CeilDiv(block_h * block_w * x[1], lanes) * lanes;
  // Enough blocks for the last window's reach and for the whole image.
  const Window folded = FoldedWindow(window, fold);
  fold.rows = std::max((y[2] - 1) * folded.stride_h + folded.size_h, program::CeilDiv(x[2] + window.pad_top, block_h));
  fold.columns = std::max((y[3] - 1) * folded.stride_w + folded.size_w, program::CeilDiv(x[3] + window.pad_left, block_w));
  const bool fits = (fold.rows - folded.size_h) / folded.stride_h + 1 == y[2] &&
                    (fold.columns - folded.size_w) / folded.stride_w + 1 == y[3];
  return fits ? std::optional(fold) : std::nullopt;
}

// Products for one element of y.
int64_t Products(const Window& window, const SpaceToDepth& fold) {
  const Window folded = FoldedWindow(window, fold);
  return folded.size_h * folded.size_w * fold.channels;
}

}  // namespace

std::optional<SpaceToDepth> FoldOfImages(const Window& window, const Shape& x, const Shape& y, DType dtype,
                                         Precision precision) {
  const bool is_bf16 = dtype == DType::kBF16;
  const int64_t lanes = is_bf16 ? kLanesOf<BFloat16> : kLanesOf<float>;
  if (x[1] % lanes == 0 || (!is_bf16 && (dtype != DType::kF32 || precision != Precision::kTf32))) return std::nullopt;
  std::optional<SpaceToDepth> best = InBlocks(window.stride_h, window.stride_w, window, x, y, lanes);
  if (is_bf16) {
    const std::optional<SpaceToDepth> pixels = InBlocks(1, 1, window, x, y, lanes);
    if (!best || (pixels && Products(window, *pixels) < Products(window, *best))) best = pixels;
    return best;
  }
  const bool gains = best && window.stride_h * window.stride_w > 1 &&
                     static_cast<double>(Products(window, *best)) <=
                         kMostProducts * static_cast<double>(window.size_h * window.size_w * x[1]);
  return gains ? best : std::nullopt;
}

Window FoldedWindow(const Window& window, const SpaceToDepth& images) {
  return {.size_h = program::CeilDiv(window.size_h, images.block_h),
          .size_w = program::CeilDiv(window.size_w, images.block_w),
          .stride_h = window.stride_h / images.block_h,
          .stride_w = window.stride_w / images.block_w};
}

SpaceToDepth FoldOfFilters(const Window& window, const SpaceToDepth& images) {
  const Window folded = FoldedWindow(window, images);
  return {.block_h = images.block_h,
          .block_w = images.block_w,
          .rows = folded.size_h,
          .columns = folded.size_w,
          .channels = images.channels};
}

View FoldedView(DType dtype, const Shape& shape, const SpaceToDepth& fold) {
  return {dtype, shape, {fold.elements(), 1, 0, 0}, 0, fold};
}

absl::StatusOr<Call> FoldCall(const Operand& x, const Operand& y) {
  const auto call = [&]<class From, class To>(From, To) {
    return Call(
        Kernel(FoldPixels<From, To>{ImageOf(x.view), *y.view.folded, reinterpret_cast<const From*>(x.base) + x.view.offset,
                                    reinterpret_cast<To*>(y.base) + y.view.offset}));
  };
  const DType from = x.view.dtype, to = y.view.dtype;
  if (from == DType::kF32 && to == DType::kF32) return call(float{}, float{});
  if (from == DType::kF32 && to == DType::kBF16) return call(float{}, BFloat16{});
  if (from == DType::kBF16 && to == DType::kBF16) return call(BFloat16{}, BFloat16{});
  return absl::InvalidArgumentError(absl::StrCat("folding of ", program::Name(from), " into ", program::Name(to)));
}

absl::StatusOr<Call> UnfoldCall(const Operand& x, const Operand& y) {
  const auto call = [&]<class From, class To>(From, To) {
    return Call(
        Kernel(UnfoldPixels<From, To>{*x.view.folded, ImageOf(y.view), reinterpret_cast<const From*>(x.base) + x.view.offset,
                                      reinterpret_cast<To*>(y.base) + y.view.offset}));
  };
  const DType from = x.view.dtype, to = y.view.dtype;
  if (from == DType::kF32 && to == DType::kF32) return call(float{}, float{});
  if (from == DType::kBF16 && to == DType::kF32) return call(BFloat16{}, float{});
  if (from == DType::kBF16 && to == DType::kBF16) return call(BFloat16{}, BFloat16{});
  return absl::InvalidArgumentError(absl::StrCat("unfolding of ", program::Name(from), " into ", program::Name(to)));
}

}  // namespace colonnade::cuda
