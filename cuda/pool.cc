#include "cuda/pool.h"

namespace colonnade::cuda {

Image ImageOf(const View& view) {
  const program::Shape &e = view.shape, &s = view.strides;
  return {e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3]};
}

PreparedTask Prepare(const program::MaxPoolForward& op, const TaskContext& context) {
  const bool trains = context.operands.size() > 2;
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(0).dtype, [&]<class T>(T) {
    return Call(Kernel(MaxPoolForwardElements<T>{op.window, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                                 trains ? ImageOf(context.view(2)) : Image{}, context.at<T>(0),
                                                 context.at<T>(1), trains ? context.at<uint8_t>(2) : nullptr}));
  }));
  return ready;
}

PreparedTask Prepare(const program::MaxPoolBackward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(1).dtype, [&]<class T>(T) {
    return Call(Kernel(MaxPoolBackwardElements<T>{op.window, ImageOf(context.view(2)), ImageOf(context.view(1)),
                                                  ImageOf(context.view(0)), context.at<uint8_t>(0), context.at<T>(1),
                                                  context.at<T>(2)}));
  }));
  return ready;
}

PreparedTask Prepare(const program::AvgPoolForward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(0).dtype, [&]<class T>(T) {
    return Call(Kernel(AvgPoolForwardElements<T>{op.window, op.count_pad, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                                 context.at<T>(0), context.at<T>(1)}));
  }));
  return ready;
}

PreparedTask Prepare(const program::AvgPoolBackward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(0).dtype, [&]<class T>(T) {
    return Call(Kernel(AvgPoolBackwardElements<T>{op.window, op.count_pad, ImageOf(context.view(1)),
                                                  ImageOf(context.view(0)), context.at<T>(0), context.at<T>(1)}));
  }));
  return ready;
}

}  // namespace colonnade::cuda
