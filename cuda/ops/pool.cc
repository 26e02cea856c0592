#include "cuda/ops/pool.h"

#include <algorithm>

#include "program/op_traits.h"

namespace colonnade::cuda {

Image ImageOf(const View& view) {
  int64_t e[4] = {1, 1, 1, 1}, s[4] = {};
  std::copy(view.shape.begin(), view.shape.end(), e);
  std::copy(view.strides.begin(), view.strides.end(), s);
  return {e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3]};
}

bool HaveWideChannels(program::DType dtype, absl::Span<const Operand> images) {
  const int64_t lanes = kWidestAccess / program::SizeInBytes(dtype);
  return std::all_of(images.begin(), images.end(), [&](const Operand& image) {
    const absl::StatusOr<Walk> walk = WalkOver({image.view});
    const Base base = {image.base, program::SizeInBytes(image.view.dtype)};
    return walk.ok() && image.view.shape[1] % lanes == 0 && image.view.strides[1] == 1 &&
           LieInVectors(*walk, {base}, static_cast<int>(lanes));
  });
}

namespace {

// The kernel that make(Vector<T, lanes>{}) makes, for the operands `images` of `dtype`.
template <class Make>
PreparedTask OverImages(program::DType dtype, absl::Span<const Operand> images, const Make& make) {
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(dtype, HaveWideChannels(dtype, images), make));
  return ready;
}

}  // namespace

PreparedTask Prepare(const program::MaxPoolForward& op, const TaskContext& context) {
  const bool trains = program::HasOptionalOperands(op, context.operands.size());
  return OverImages(context.view(0).dtype, context.operands, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(MaxPoolForwardElements<T, lanes>{op.window, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                                   trains ? ImageOf(context.view(2)) : Image{}, context.at<T>(0),
                                                   context.at<T>(1), trains ? context.at<uint8_t>(2) : nullptr});
  });
}

PreparedTask Prepare(const program::MaxPoolBackward& op, const TaskContext& context) {
  return OverImages(context.view(1).dtype, context.operands, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(MaxPoolBackwardElements<T, lanes>{op.window, ImageOf(context.view(2)), ImageOf(context.view(1)),
                                                    ImageOf(context.view(0)), context.at<uint8_t>(0), context.at<T>(1),
                                                    context.at<T>(2)});
  });
}

PreparedTask Prepare(const program::AvgPoolForward& op, const TaskContext& context) {
  return OverImages(context.view(0).dtype, context.operands, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(AvgPoolForwardElements<T, lanes>{op.window, op.count_pad, ImageOf(context.view(0)),
                                                   ImageOf(context.view(1)), context.at<T>(0), context.at<T>(1)});
  });
}

PreparedTask Prepare(const program::AvgPoolBackward& op, const TaskContext& context) {
  return OverImages(context.view(0).dtype, context.operands, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(AvgPoolBackwardElements<T, lanes>{op.window, op.count_pad, ImageOf(context.view(1)),
                                                    ImageOf(context.view(0)), context.at<T>(0), context.at<T>(1)});
  });
}

}  // namespace colonnade::cuda
