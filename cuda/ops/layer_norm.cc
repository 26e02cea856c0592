#include "cuda/ops/layer_norm.h"

#include <initializer_list>
#include <vector>

#include "base/status_macros.h"
#include "cuda/ops/elementwise.h"
#include "cuda/ops/pool.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {
namespace {

ChannelNumbers OfChannels(const TaskContext& context, int use) {
  return {context.at<float>(use), context.view(use).strides[0]};
}
PositionNumbers MomentsAt(const TaskContext& context, int use) {
  return {ImageOf(context.view(use)), context.at<float>(use)};
}

// x and others like it: the views of their positions in channel 0. InvalidArgument where there are no kernels for them.
absl::StatusOr<Walk> WalkOverPositionsOf(const TaskContext& context, std::initializer_list<int> uses) {
  std::vector<View> views;
  for (int use : uses) {
    program::Region first = program::Region::Whole(context.view(use).shape);
    first.size[1] = 1;
    views.push_back(Slice(context.view(use), first));
  }
  return WalkOver(views);
}

bool AreInVectors(const TaskContext& context, std::initializer_list<int> uses) {
  std::vector<Operand> images;
  for (int use : uses) images.push_back(context.operands[use]);
  return HaveWideChannels(context.view(0).dtype, images);
}

// Columns of as many threads as x has vectors of channels, rounded up to a power of two; at most a block.
template <int lanes>
PositionColumns<lanes> ColumnsOver(const View& x) {
  const int64_t vectors = program::CeilDiv(x.shape[1], lanes);
  int threads = 1;
  while (threads < kThreadsOfBlock && threads < vectors) threads *= 2;
  return {ImageOf(x), kThreadsOfBlock / threads};
}

}  // namespace

PreparedTask Prepare(const program::LayerNormForward& op, const TaskContext& context) {
  RETURN_IF_ERROR(WalkOverPositionsOf(context, {0, 3, 4}).status());
  const View &x = context.view(0), &y = context.view(3);
  const bool wide = AreInVectors(context, {0, 3});
  const PositionNumbers moments = MomentsAt(context, 4);
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(x.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LayerNormMoments<T, lanes>{ColumnsOver<lanes>(x), context.at<T>(0), op.epsilon, moments});
  }));
  ready.calls.push_back(InVectorsOf(x.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LayerNormForwardElements<T, lanes>{ImageOf(x), ImageOf(y), moments, OfChannels(context, 1),
                                                     OfChannels(context, 2), context.at<T>(0), context.at<T>(3)});
  }));
  return ready;
}

PreparedTask Prepare(const program::LayerNormBackwardData&, const TaskContext& context) {
  RETURN_IF_ERROR(WalkOverPositionsOf(context, {0, 1, 2, 4}).status());
  const View &x = context.view(0), &dy = context.view(1);
  const bool wide = AreInVectors(context, {0, 1, 4});
  const PositionNumbers moments = MomentsAt(context, 2);
  Workspace workspace(context);
  PositionNumbers means = {ImageOf(x), nullptr};  // two of each position, side by side
  means.image.c = 2;
  means.image.stride_c = 1;
  means.image.stride_w = 2;
  means.image.stride_h = means.image.w * means.image.stride_w;
  means.image.stride_n = means.image.h * means.image.stride_h;
  means.data = workspace.Take<float>(means.image.count());
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(x.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LayerNormGradientMeans<T, lanes>{ColumnsOver<lanes>(x), ImageOf(dy), context.at<T>(0), context.at<T>(1),
                                                   moments, OfChannels(context, 3), means});
  }));
  ready.calls.push_back(InVectorsOf(x.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(LayerNormBackwardElements<T, lanes>{ImageOf(x), ImageOf(dy), ImageOf(context.view(4)), moments, means,
                                                      OfChannels(context, 3), context.at<T>(0), context.at<T>(1),
                                                      context.at<T>(4)});
  }));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::LayerNormBackwardWeights&, const TaskContext& context) {
  ASSIGN_OR_RETURN(const Walk positions, WalkOverPositionsOf(context, {0, 1, 2}));
  const View &x = context.view(0), &dy = context.view(1);
  const bool wide = AreInVectors(context, {0, 1});
  const int64_t channels = x.shape[1], lanes_of_wide = kWidestAccess / program::SizeInBytes(x.dtype);
  const ChannelBlocks blocks = ChannelBlocksFor(positions.count, wide ? channels / lanes_of_wide : channels);
  Workspace workspace(context);
  double* partial = workspace.Take<double>(blocks.parts * 2 * channels);
  const GroupSums sums = {workspace.Take<double>(2 * channels), 1, channels, 2 * channels, channels, 1};
  TaskCalls ready;
  ready.calls.push_back(InVectorsOf(x.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    // The walk counts offsets from the operands' bases.
    const LayerNormTerms<T, lanes> terms = {{{context.base<T>(0), 0, x.strides[1]}, {context.base<T>(1), 0, dy.strides[1]}},
                                            context.base<float>(2),
                                            context.view(2).strides[1]};
    return Kernel(PairSums<LayerNormTerms<T, lanes>>{positions, terms, 1, channels, blocks.parts, blocks.columns, partial});
  }));
  ready.calls.push_back(Kernel(SumPairParts{partial, blocks.parts, sums}));
  ready.calls.push_back(Kernel(PutSumPairs{sums, OfChannels(context, 4), OfChannels(context, 3)}));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

}  // namespace colonnade::cuda
