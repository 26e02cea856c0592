#include "cuda/ops/batch_norm.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "cuda/ops/elementwise.h"
#include "cuda/ops/pool.h"
#include "program/op_traits.h"

namespace colonnade::cuda {
namespace {

GroupSums SumsOf(const TaskContext& context, int use) {
  const View& view = context.view(use);
  return {context.at<double>(use), view.shape[0], view.shape[2], view.strides[0], view.strides[1], view.strides[2]};
}

// What stands last, `from_end` operands before the end.
int FromEnd(const TaskContext& context, int from_end) { return static_cast<int>(context.operands.size()) - from_end; }
bool HasOptional(const program::Op& op, const TaskContext& context) {
  return program::HasOptionalOperands(op, context.operands.size());
}

ChannelNumbers NumbersOf(const TaskContext& context, int use) {
  return {context.at<float>(use), context.view(use).strides[0]};
}

// [n,C,…] whose samples are cut into groups.
int64_t SamplesOfGroup(const View& x, const GroupSums& sums) { return x.shape[0] / sums.groups; }

std::vector<Operand> OperandsAt(const TaskContext& context, std::initializer_list<int> uses) {
  std::vector<Operand> operands;
  for (int use : uses) operands.push_back(context.operands[use]);
  return operands;
}

// Through the positions of one channel of one group.
absl::StatusOr<Walk> WalkOverPositions(absl::Span<const Operand> tensors, const GroupSums& sums) {
  std::vector<View> views;
  for (const Operand& tensor : tensors) {
    program::Region first = program::Region::Whole(tensor.view.shape);
    first.size[0] = SamplesOfGroup(tensor.view, sums);
    first.size[1] = 1;
    views.push_back(Slice(tensor.view, first));
  }
  return WalkOver(views);
}

// The walk counts offsets from the operand's base.
template <class T>
GroupedTensor<T> Grouped(const TaskContext& context, int use, const GroupSums& sums) {
  const View& view = context.view(use);
  return {context.base<T>(use), SamplesOfGroup(view, sums) * view.strides[0], view.strides[1]};
}

// Appends sums = what the Terms that terms_of(Vector<T, lanes>{}) makes add up to over `tensors`.
template <class TermsOf>
absl::Status AppendPairSums(absl::Span<const Operand> tensors, const GroupSums& sums, Workspace& workspace,
                            std::vector<Call>& calls, const TermsOf& terms_of) {
  ASSIGN_OR_RETURN(Walk positions, WalkOverPositions(tensors, sums));
  const program::DType dtype = tensors[0].view.dtype;
  const bool wide = HaveWideChannels(dtype, tensors);
  const int64_t lanes = wide ? kWidestAccess / program::SizeInBytes(dtype) : 1;
  const ChannelBlocks blocks = ChannelBlocksFor(positions.count, sums.channels / lanes);
  double* partial = workspace.Take<double>(sums.groups * blocks.parts * 2 * sums.channels);
  calls.push_back(InVectorsOf(dtype, wide, [&](auto vector) {
    const auto terms = terms_of(vector);
    return Kernel(PairSums<std::remove_const_t<decltype(terms)>>{positions, terms, sums.groups, sums.channels, blocks.parts,
                                                                 blocks.columns, partial});
  }));
  calls.push_back(Kernel(SumPairParts{partial, blocks.parts, sums}));
  return absl::OkStatus();
}

Coefficients TakeCoefficients(const GroupSums& sums, Workspace& workspace) {
  return {workspace.Take<float>(sums.groups * Coefficients::kKinds * sums.channels), sums.channels};
}

// `ready` with what makes dsums, dw and db, the last operands, of the sums that it makes.
PreparedTask Finished(TaskCalls ready, const TaskContext& context, const GroupStatistics& statistics,
                      const Workspace& workspace) {
  ready.calls.push_back(
      Kernel(FinishGradientSums{statistics, SumsOf(context, FromEnd(context, 3)), NumbersOf(context, FromEnd(context, 2)),
                                NumbersOf(context, FromEnd(context, 1))}));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

absl::StatusOr<Walk> WalkOverImages(absl::Span<const Operand> images) {
  std::vector<View> views;
  for (const Operand& image : images) views.push_back(image.view);
  return WalkOver(views);
}

GroupedChannels PlacesOf(const View& x, const GroupSums& sums) {
  GroupedChannels places = {1, x.shape[1], program::ElementCount(x.shape) / sums.groups};
  for (size_t d = 2; d < x.shape.size(); ++d) {
    if (x.strides[d] < x.strides[1]) places.inner *= x.shape[d];
  }
  return places;
}

}  // namespace

PreparedTask Prepare(const program::BatchNormSums& op, const TaskContext& context) {
  const GroupSums sums = SumsOf(context, 1);
  TaskCalls ready;
  Workspace workspace(context);
  RETURN_IF_ERROR(AppendPairSums(
      OperandsAt(context, {0}), sums, workspace, ready.calls,
      [&]<class T, int lanes>(Vector<T, lanes>) { return PowerTerms<T, lanes>{Grouped<const T>(context, 0, sums)}; }));
  if (HasOptional(op, context)) ready.calls.push_back(Kernel(SumGroups{sums, SumsOf(context, 2)}));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::BatchNormForward& op, const TaskContext& context) {
  const int y = FromEnd(context, 1);
  const bool adds = HasOptional(op, context);
  const std::vector<Operand> images = OperandsAt(context, {0, y, 4});  // without one that is added y again
  ASSIGN_OR_RETURN(const Walk walk, WalkOverImages(images));
  const GroupStatistics statistics = {SumsOf(context, 1), op.count, op.epsilon};
  TaskCalls ready;
  Workspace workspace(context);
  const Coefficients of = TakeCoefficients(statistics.sums, workspace);
  ready.calls.push_back(Kernel(ForwardCoefficients{statistics, NumbersOf(context, 2), NumbersOf(context, 3), of}));
  const View& x = context.view(0);
  ready.calls.push_back(InVectorsOf(x.dtype, HaveWideChannels(x.dtype, images), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(BatchNormForwardElements<T, lanes>{walk, PlacesOf(x, statistics.sums), of, context.base<T>(0),
                                                     context.base<T>(y), adds ? context.base<T>(4) : nullptr, op.relu});
  }));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::BatchNormTrack& op, const TaskContext& context) {
  TaskCalls ready;
  ready.calls.push_back(
      Kernel(TrackChannels{SumsOf(context, 0), op.count, op.momentum, NumbersOf(context, 1), NumbersOf(context, 2),
                           HasOptional(op, context) ? context.at<double>(3) : nullptr}));
  return ready;
}

PreparedTask Prepare(const program::BatchNormRecall&, const TaskContext& context) {
  TaskCalls ready;
  ready.calls.push_back(Kernel(RecallChannels{NumbersOf(context, 0), NumbersOf(context, 1), SumsOf(context, 2)}));
  return ready;
}

PreparedTask Prepare(const program::BatchNormFold& op, const TaskContext& context) {
  const int folded = FromEnd(context, 2), folded_bias = FromEnd(context, 1);
  const View &weights = context.view(0), &to = context.view(folded);
  const ChannelNumbers bias = HasOptional(op, context) ? NumbersOf(context, 5) : ChannelNumbers{};
  View repeated = RowMajor(weights.dtype, weights.shape);
  repeated.strides.assign(weights.shape.size(), 0);
  repeated.strides[0] = 1;
  ASSIGN_OR_RETURN(Walk walk, WalkOver({weights, to, repeated}));
  TaskCalls ready;
  Workspace workspace(context);
  const int64_t channels = weights.shape[0];
  float* factors = workspace.Take<float>(channels);
  ready.calls.push_back(InTypeOf(to.dtype, [&]<class T>(T) {
    return Call(Kernel(NormalisedBiases<T>{NumbersOf(context, 1), NumbersOf(context, 2), NumbersOf(context, 3),
                                           NumbersOf(context, 4), bias, op.epsilon, channels, factors,
                                           context.at<T>(folded_bias), context.view(folded_bias).strides[0]}));
  }));
  const int64_t size = program::SizeInBytes(to.dtype);
  const Base bases[] = {{context.operands[0].base, sizeof(float)}, {context.operands[folded].base, size}};
  const bool is_of_one_channel = walk.stride[2][0] == 0;  // what lies side by side
  const bool wide = is_of_one_channel && LieInVectors(walk, bases, static_cast<int>(kWidestAccess / size));
  ready.calls.push_back(InVectorsOf(to.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(NormalisedWeights<T, lanes>{walk, context.base<float>(0), factors, context.base<T>(folded)});
  }));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::BatchNormBackwardSums& op, const TaskContext& context) {
  const GroupStatistics statistics = {SumsOf(context, 2), op.count, op.epsilon};
  const std::vector<Operand> images = OperandsAt(context, {0, 1});
  const bool recalls = HasOptional(op, context);
  TaskCalls ready;
  Workspace workspace(context);
  const Coefficients of = recalls ? TakeCoefficients(statistics.sums, workspace) : Coefficients{};
  if (recalls) {
    ready.calls.push_back(Kernel(ForwardCoefficients{statistics, NumbersOf(context, 3), NumbersOf(context, 4), of}));
  }
  const GroupSums dsums = SumsOf(context, FromEnd(context, 3));
  const auto terms = [&]<class T, int lanes>(Vector<T, lanes>) {
    return GradientTerms<T, lanes>{Grouped<const T>(context, 0, dsums), Grouped<const T>(context, 1, dsums)};
  };
  const auto recalled_terms = [&]<class T, int lanes>(Vector<T, lanes> vector) {
    return RecalledGradientTerms<T, lanes>{terms(vector), of};
  };
  RETURN_IF_ERROR(recalls ? AppendPairSums(images, dsums, workspace, ready.calls, recalled_terms)
                          : AppendPairSums(images, dsums, workspace, ready.calls, terms));
  return Finished(std::move(ready), context, statistics, workspace);
}

PreparedTask Prepare(const program::BatchNormMaskedSums& op, const TaskContext& context) {
  const GroupStatistics statistics = {SumsOf(context, 3), op.count, op.epsilon};
  const int dz = FromEnd(context, 4);
  const bool adds = HasOptional(op, context);
  const GroupSums dsums = SumsOf(context, dz + 1);
  std::vector<Operand> images = OperandsAt(context, {0, 2, 1, dz});
  if (adds) images.push_back(context.operands[4]);
  TaskCalls ready;
  Workspace workspace(context);
  RETURN_IF_ERROR(AppendPairSums(images, dsums, workspace, ready.calls, [&]<class T, int lanes>(Vector<T, lanes>) {
    return MaskedGradientTerms<T, lanes>{{Grouped<const T>(context, 0, dsums), Grouped<const T>(context, 2, dsums)},
                                         Grouped<const T>(context, 1, dsums),
                                         adds ? Grouped<const T>(context, 4, dsums) : GroupedTensor<const T>{},
                                         Grouped<T>(context, dz, dsums)};
  }));
  return Finished(std::move(ready), context, statistics, workspace);
}

PreparedTask Prepare(const program::BatchNormBackward& op, const TaskContext& context) {
  const int dx = FromEnd(context, 1);
  const bool recalls = HasOptional(op, context);
  const std::vector<Operand> images = OperandsAt(context, {0, 1, dx});
  ASSIGN_OR_RETURN(const Walk walk, WalkOverImages(images));
  const GroupStatistics statistics = {SumsOf(context, 2), op.count, op.epsilon};
  TaskCalls ready;
  Workspace workspace(context);
  const Coefficients of = TakeCoefficients(statistics.sums, workspace);
  const ChannelNumbers b = recalls ? NumbersOf(context, 5) : ChannelNumbers{};
  ready.calls.push_back(Kernel(BackwardCoefficients{statistics, SumsOf(context, 3), NumbersOf(context, 4), b, of}));
  const View& x = context.view(0);
  ready.calls.push_back(InVectorsOf(x.dtype, HaveWideChannels(x.dtype, images), [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(BatchNormBackwardElements<T, lanes>{walk, PlacesOf(x, statistics.sums), of, context.base<T>(0),
                                                      context.base<T>(1), context.base<T>(dx), recalls});
  }));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

}  // namespace colonnade::cuda
