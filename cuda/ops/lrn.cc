#include "cuda/ops/lrn.h"

#include "cuda/ops/pool.h"

namespace colonnade::cuda {
namespace {

// Lanes of a vector are in one block of channels.
bool AreWide(const TaskContext& context, program::DType dtype, int64_t block) {
  return block % (kWidestAccess / program::SizeInBytes(dtype)) == 0 && HaveWideChannels(dtype, context.operands);
}

}  // namespace

PreparedTask Prepare(const program::LrnForward& op, const TaskContext& context) {
  const bool trains = context.operands.size() > 2;
  const program::DType dtype = context.view(0).dtype;
  const int64_t block = context.view(0).shape[1] / op.groups;
  ReadyTask ready;
  ready.calls.push_back(InVectorsOf(dtype, AreWide(context, dtype, block), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LrnForwardElements<T, lanes>{op.size, block, static_cast<float>(op.alpha / static_cast<double>(op.size)),
                                               static_cast<float>(op.beta), static_cast<float>(op.k),
                                               ImageOf(context.view(0)), ImageOf(context.view(1)),
                                               trains ? ImageOf(context.view(2)) : Image{}, context.at<T>(0),
                                               context.at<T>(1), trains ? context.at<float>(2) : nullptr});
  }));
  return ready;
}

PreparedTask Prepare(const program::LrnBackward& op, const TaskContext& context) {
  const program::DType dtype = context.view(0).dtype;
  const int64_t block = context.view(0).shape[1] / op.groups;
  ReadyTask ready;
  ready.calls.push_back(InVectorsOf(dtype, AreWide(context, dtype, block), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LrnBackwardElements<T, lanes>{op.size, block, static_cast<float>(op.alpha / static_cast<double>(op.size)),
                                                static_cast<float>(op.beta), ImageOf(context.view(0)),
                                                ImageOf(context.view(1)), ImageOf(context.view(2)), ImageOf(context.view(3)),
                                                context.at<T>(0), context.at<float>(1), context.at<T>(2), context.at<T>(3)});
  }));
  return ready;
}

}  // namespace colonnade::cuda
