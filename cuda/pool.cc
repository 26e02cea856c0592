#include "cuda/pool.h"

namespace colonnade::cuda {

Image ImageOf(const View& view) {
  const program::Shape &e = view.shape, &s = view.strides;
  return {e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3]};
}

PreparedTask Prepare(const program::MaxPoolForward& op, const TaskContext& context) {
  const bool trains = context.operands.size() > 2;
  ReadyTask ready;
  ready.calls.push_back(Kernel(MaxPoolForwardElements{op.window, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                                      trains ? ImageOf(context.view(2)) : Image{}, context.at<float>(0),
                                                      context.at<float>(1), trains ? context.at<uint8_t>(2) : nullptr}));
  return ready;
}

PreparedTask Prepare(const program::MaxPoolBackward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(
      Kernel(MaxPoolBackwardElements{op.window, ImageOf(context.view(2)), ImageOf(context.view(1)), ImageOf(context.view(0)),
                                     context.at<uint8_t>(0), context.at<float>(1), context.at<float>(2)}));
  return ready;
}

PreparedTask Prepare(const program::AvgPoolForward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(
      Kernel(AvgPoolForwardElements{op.window, op.count_pad, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                    context.at<float>(0), context.at<float>(1)}));
  return ready;
}

PreparedTask Prepare(const program::AvgPoolBackward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(
      Kernel(AvgPoolBackwardElements{op.window, op.count_pad, ImageOf(context.view(1)), ImageOf(context.view(0)),
                                     context.at<float>(0), context.at<float>(1)}));
  return ready;
}

}  // namespace colonnade::cuda
