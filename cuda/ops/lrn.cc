#include "cuda/ops/lrn.h"

#include "cuda/ops/pool.h"

namespace colonnade::cuda {
namespace {

// Lanes of a vector are in one block of channels.
bool AreWide(const TaskContext& context, program::DType dtype, int64_t block) {
  return block % (kWidestAccess / program::SizeInBytes(dtype)) == 0 && HaveWideChannels(dtype, context.operands);
}

template <class Op>
LrnWindow WindowOf(const Op& op, const TaskContext& context) {
  return {op.size, context.view(0).shape[1] / op.groups, static_cast<float>(op.alpha / static_cast<double>(op.size)),
          static_cast<float>(op.beta), static_cast<float>(op.k)};
}

}  // namespace

PreparedTask Prepare(const program::LrnForward& op, const TaskContext& context) {
  const program::DType dtype = context.view(0).dtype;
  const LrnWindow window = WindowOf(op, context);
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(dtype, AreWide(context, dtype, window.block), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LrnForwardElements<T, lanes>{window, ImageOf(context.view(0)), ImageOf(context.view(1)), context.at<T>(0),
                                               context.at<T>(1)});
  }));
  return ready;
}

PreparedTask Prepare(const program::LrnBackward& op, const TaskContext& context) {
  const program::DType dtype = context.view(0).dtype;
  const LrnWindow window = WindowOf(op, context);
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(dtype, AreWide(context, dtype, window.block), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LrnBackwardElements<T, lanes>{window, ImageOf(context.view(0)), ImageOf(context.view(1)),
                                                ImageOf(context.view(2)), context.at<T>(0), context.at<T>(1),
                                                context.at<T>(2)});
  }));
  return ready;
}

}  // namespace colonnade::cuda
