#include "cuda/ops/softmax.h"

namespace colonnade::cuda {

PreparedTask Prepare(const program::SoftmaxCrossEntropyForward& op, const TaskContext& context) {
  const View &logits = context.view(0), &labels = context.view(1), &p = context.view(2);
  const int64_t samples = logits.shape[0], classes = logits.shape[1];
  Workspace workspace(context);
  auto* totals = workspace.Take<SoftmaxPart>(samples);
  auto* of_sample = workspace.Take<SampleMetrics>(samples);
  TaskCalls ready;
  InTypeOf(logits.dtype, [&]<class T>(T) {
    const T* x = context.at<T>(0);
    const int64_t stride_n = logits.strides[0], stride_k = logits.strides[1];
    ready.calls.push_back(Kernel(SoftmaxSamples<T>{op.weight, op.label_smoothing, samples, classes, x, stride_n, stride_k,
                                                   context.at<int32_t>(1), labels.strides[0], totals, of_sample}));
    ready.calls.push_back(Kernel(SoftmaxElements<T>{samples, classes, x, stride_n, stride_k, totals, context.at<float>(2),
                                                    p.strides[0], p.strides[1]}));
  });
  ready.calls.push_back(Kernel(SumMetrics{samples, of_sample, context.at<double>(3)}));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::CountLabels&, const TaskContext& context) {
  const int last = static_cast<int>(context.operands.size()) - 1;
  TaskCalls ready;
  for (int i = 0; i < last; ++i) {
    const View& labels = context.view(i);
    ready.calls.push_back(
        Kernel(CountOfLabels{i == 0, labels.shape[0], context.at<int32_t>(i), labels.strides[0], context.at<double>(last)}));
  }
  return ready;
}

PreparedTask Prepare(const program::SoftmaxCrossEntropyBackward& op, const TaskContext& context) {
  const View &p = context.view(1), &labels = context.view(2), &d = context.view(3);
  TaskCalls ready;
  ready.calls.push_back(InTypeOf(d.dtype, [&]<class T>(T) {
    return Call(Kernel(SoftmaxBackwardElements<T>{
        op.weight, op.label_smoothing, p.shape[0], p.shape[1], context.at<double>(0), context.at<float>(1), p.strides[0],
        p.strides[1], context.at<int32_t>(2), labels.strides[0], context.at<T>(3), d.strides[0], d.strides[1]}));
  }));
  return ready;
}

}  // namespace colonnade::cuda
