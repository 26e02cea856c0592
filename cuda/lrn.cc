#include "cuda/lrn.h"

#include "cuda/pool.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::LrnForward& op, const TaskContext& context) {
  const bool trains = context.operands.size() > 2;
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(0).dtype, [&]<class T>(T) {
    return Call(Kernel(LrnForwardElements<T>{op.size, context.view(0).shape[1] / op.groups,
                                             static_cast<float>(op.alpha / static_cast<double>(op.size)),
                                             static_cast<float>(op.beta), static_cast<float>(op.k), ImageOf(context.view(0)),
                                             ImageOf(context.view(1)), trains ? ImageOf(context.view(2)) : Image{},
                                             context.at<T>(0), context.at<T>(1), trains ? context.at<float>(2) : nullptr}));
  }));
  return ready;
}

PreparedTask Prepare(const program::LrnBackward& op, const TaskContext& context) {
  ReadyTask ready;
  ready.calls.push_back(InTypeOf(context.view(0).dtype, [&]<class T>(T) {
    return Call(Kernel(LrnBackwardElements<T>{
        op.size, context.view(0).shape[1] / op.groups, static_cast<float>(op.alpha / static_cast<double>(op.size)),
        static_cast<float>(op.beta), ImageOf(context.view(0)), ImageOf(context.view(1)), ImageOf(context.view(2)),
        ImageOf(context.view(3)), context.at<T>(0), context.at<float>(1), context.at<T>(2), context.at<T>(3)}));
  }));
  return ready;
}

}  // namespace colonnade::cuda
