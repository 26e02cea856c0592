// Images folded for the convolutions that read them. A first convolution of few channels and a large stride is slow on
// tensor cores: cuDNN pads or turns around the image in every pass. Folded in blocks of the stride when it is loaded, the
// image has the stride's square as many channels, and the convolution stride 1:
//   x [n, c, h, w] ∗ f [k, c, r, s] with stride b  =  X [n, b²·c, H, W] ∗ F [k, b²·c, ⌈r/b⌉, ⌈s/b⌉] with stride 1,
// padding being part of X, F being f folded alike, and b²·c being rounded up to whole vectors of channels. In bf16, which
// has no other way to such vectors, images are also folded in blocks of one pixel. Sums of finite numbers are the same, but
// for zeros that are added. Known from TPUs ("space to depth").
#ifndef COLONNADE_CUDA_SPACE_TO_DEPTH_H_
#define COLONNADE_CUDA_SPACE_TO_DEPTH_H_

#include <cstdint>
#include <optional>

#include "cuda/calls.h"
#include "cuda/task_context.h"
#include "program/op.h"

namespace colonnade::cuda {

// Returns how images x, which a convolution (without groups) turns into y, are best folded; nothing where that gains
// nothing: where vectors of channels are whole already, or in full f32, which has no tensor cores.
std::optional<SpaceToDepth> FoldOfImages(const program::Window& window, const program::Shape& x, const program::Shape& y,
                                         program::DType dtype, Precision precision);
// Return the folded convolution's window, and how its filters are folded.
program::Window FoldedWindow(const program::Window& window, const SpaceToDepth& images);
SpaceToDepth FoldOfFilters(const program::Window& window, const SpaceToDepth& images);

View FoldedView(program::DType dtype, const program::Shape& shape, const SpaceToDepth& fold);

// Return the calls that fold x into y, zeros included, and that unfold it. f32 and bf16 only.
absl::StatusOr<Call> FoldCall(const Operand& x, const Operand& y);
absl::StatusOr<Call> UnfoldCall(const Operand& x, const Operand& y);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_SPACE_TO_DEPTH_H_
