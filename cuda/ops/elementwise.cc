#include "cuda/ops/elementwise.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/ops/copy.h"
#include "program/formulas/rounding.h"

namespace colonnade::cuda {

using program::DType;
using program::Shape;

namespace {

// Blocks of a reduction: enough for a GPU, few enough for the kernel that merges them. Threads of smaller ones get this much
// to do before there is another block.
constexpr int64_t kMostBlocks = 1024, kLeastOfThread = 16;
constexpr int64_t kMostVectorsOfBlock = 8;  // 128 bytes of a position

// How many blocks of `threads` share `all` pieces of work.
int64_t BlocksFor(int64_t all, int64_t threads, int64_t most) {
  return std::clamp<int64_t>(all / (threads * kLeastOfThread), 1, std::max<int64_t>(most, 1));
}

absl::StatusOr<Walk> WalkOverUses(const TaskContext& context, int first, int count) {
  std::vector<View> views;
  for (int use = first; use < first + count; ++use) views.push_back(context.view(use));
  return WalkOver(views);
}

PreparedTask One(absl::StatusOr<Call> call) {
  if (!call.ok()) return call.status();
  TaskCalls ready;
  ready.calls.push_back(*std::move(call));
  return ready;
}

template <class T>
T* DataOf(const Operand& operand) {
  return reinterpret_cast<T*>(operand.base);
}

// InVectorsOf, as wide as the operands of `walk`, which are all of one type, allow.
template <class Make>
Call InVectors(const Walk& walk, absl::Span<const Operand> operands, const Make& make) {
  const int64_t size = program::SizeInBytes(operands[0].view.dtype);
  std::vector<Base> bases;
  for (const Operand& operand : operands) bases.push_back({operand.base, size});
  return InVectorsOf(operands[0].view.dtype, LieInVectors(walk, bases, static_cast<int>(kWidestAccess / size)), make);
}

// What one kernel adds up of a sum.
struct SumPart {
  absl::Span<const Operand> terms;
  bool begins, ends;
  void* partial;
};

template <class T, int lanes>
Kernel SumOf(const Walk& walk, const SumPart& part, const Operand& target) {
  using Sum = SumElements<T, lanes>;
  Sum kernel{.walk = walk,
             .terms = static_cast<int>(part.terms.size()),
             .begins = part.begins,
             .ends = part.ends,
             .x = {},
             .y = DataOf<T>(target),
             .partial = static_cast<typename Sum::Accumulator*>(part.partial)};
  for (size_t j = 0; j < part.terms.size(); ++j) kernel.x[j] = DataOf<T>(part.terms[j]);
  return kernel;
}

absl::StatusOr<Call> SumCall(const SumPart& part, const Operand& target) {
  std::vector<Operand> operands = {target};
  operands.insert(operands.end(), part.terms.begin(), part.terms.end());
  std::vector<View> views;
  for (const Operand& operand : operands) views.push_back(operand.view);
  ASSIGN_OR_RETURN(Walk walk, WalkOver(views));
  switch (target.view.dtype) {
    case DType::kF32:
    case DType::kBF16:
      return InVectors(walk, operands,
                       [&]<class T, int lanes>(Vector<T, lanes>) { return SumOf<T, lanes>(walk, part, target); });
    case DType::kF64:
      return Call(SumOf<double, 1>(walk, part, target));
    case DType::kI32:
      return Call(SumOf<int32_t, 1>(walk, part, target));
    case DType::kU8:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("a sum of ", program::Name(target.view.dtype)));
}

}  // namespace

absl::Status AppendSum(absl::Span<const Operand> sources, const Operand& target, Workspace& workspace,
                       std::vector<Call>& calls) {
  void* partial = nullptr;
  if (sources.size() > kMostTermsOfKernel) {
    const DType dtype = target.view.dtype == DType::kBF16 ? DType::kF32 : target.view.dtype;
    partial = workspace.Take<char>(program::ElementCount(target.view.shape) * program::SizeInBytes(dtype));
  }
  for (size_t first = 0; first < sources.size(); first += kMostTermsOfKernel) {
    const absl::Span<const Operand> terms = sources.subspan(first, kMostTermsOfKernel);
    ASSIGN_OR_RETURN(Call call, SumCall({terms, first == 0, first + terms.size() == sources.size(), partial}, target));
    calls.push_back(std::move(call));
  }
  return absl::OkStatus();
}

PreparedTask Prepare(const program::Sum&, const TaskContext& context) {
  TaskCalls ready;
  Workspace workspace(context);
  const absl::Span<const Operand> operands = context.operands;
  RETURN_IF_ERROR(AppendSum(operands.first(operands.size() - 1), operands.back(), workspace, ready.calls));
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

absl::StatusOr<Call> AddBiasCall(const Operand& x, const Operand& bias, const Operand& y, bool relu) {
  ASSIGN_OR_RETURN(Walk walk, WalkOver({x.view, engine::RepeatOverImages(bias.view, y.view.shape), y.view}));
  const DType dtype = y.view.dtype;
  std::vector<Base> bases;
  for (const Operand* operand : {&x, &bias, &y}) bases.push_back({operand->base, SizeInBytes(operand->view.dtype)});
  const bool wide = LieInVectors(walk, bases, static_cast<int>(kWidestAccess / SizeInBytes(dtype)));
  return InVectorsOf(dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    if (x.view.dtype == dtype) {
      return Kernel(AddBias<T, T, lanes>{walk, DataOf<T>(x), DataOf<T>(bias), DataOf<T>(y), relu});
    }
    return Kernel(AddBias<float, T, lanes>{walk, DataOf<float>(x), DataOf<T>(bias), DataOf<T>(y), relu});
  });
}

absl::StatusOr<Call> ActivationCall(program::Activation activation, const Operand& x, const Operand& y) {
  ASSIGN_OR_RETURN(Walk walk, WalkOver({x.view, y.view}));
  return program::WithFormula(activation, [&]<class Formula>(Formula) {
    return InVectors(walk, {x, y}, [&]<class T, int lanes>(Vector<T, lanes>) {
      return Kernel(ActivationForwardElements<Formula, T, lanes>{walk, DataOf<T>(x), DataOf<T>(y)});
    });
  });
}

absl::StatusOr<Call> BiasAndReluCall(const Operand& y, const Operand* bias, bool relu) {
  return bias != nullptr ? AddBiasCall(y, *bias, y, relu) : ActivationCall(program::Activation::kRelu, y, y);
}

PreparedTask Prepare(const program::BiasForward&, const TaskContext& context) {
  return One(AddBiasCall(context.operands[0], context.operands[1], context.operands[2], /*relu=*/false));
}

ChannelBlocks ChannelBlocksFor(int64_t positions, int64_t vectors) {
  const auto columns = static_cast<int>(std::min(vectors, kMostVectorsOfBlock));
  const int64_t blocks_of_part = program::CeilDiv(vectors, columns);
  return {columns, BlocksFor(positions, kThreadsOfBlock / columns, kMostBlocks / blocks_of_part)};
}

absl::Status AppendChannelSums(const Operand& dy, const Operand& db, Workspace& workspace, std::vector<Call>& calls) {
  const int64_t channels = dy.view.shape[1];
  program::Region first_channel = program::Region::Whole(dy.view.shape);
  first_channel.size[1] = 1;
  ASSIGN_OR_RETURN(Walk positions, WalkOver({Slice(dy.view, first_channel)}));
  // Vectors of channels: those of a walk over all of dy.
  ASSIGN_OR_RETURN(Walk all, WalkOver({dy.view}));
  const int64_t size = program::SizeInBytes(dy.view.dtype), lanes = kWidestAccess / size;
  const bool wide = channels % lanes == 0 && dy.view.strides[1] == 1 && LieInVectors(all, {{dy.base, size}}, lanes);
  const ChannelBlocks blocks = ChannelBlocksFor(positions.count, wide ? channels / lanes : channels);
  const auto columns = blocks.columns;
  const auto parts = blocks.parts;
  double* partial = parts > 1 ? workspace.Take<double>(parts * channels) : nullptr;
  float* sums = reinterpret_cast<float*>(db.base) + db.view.offset;
  calls.push_back(InVectorsOf(dy.view.dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(ChannelSums<T, lanes>{positions, DataOf<T>(dy), channels, dy.view.strides[1], parts, columns, partial,
                                        sums, db.view.strides[0]});
  }));
  if (parts > 1) calls.push_back(Kernel(SumChannelParts{partial, channels, parts, sums, db.view.strides[0]}));
  return absl::OkStatus();
}

PreparedTask Prepare(const program::BiasBackward&, const TaskContext& context) {
  TaskCalls ready;
  Workspace workspace(context);
  absl::Status status = AppendChannelSums(context.operands[0], context.operands[1], workspace, ready.calls);
  if (!status.ok()) return status;
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

PreparedTask Prepare(const program::ActivationForward& op, const TaskContext& context) {
  return One(ActivationCall(op.activation, context.operands[0], context.operands[1]));
}

PreparedTask Prepare(const program::ActivationBackward& op, const TaskContext& context) {
  ASSIGN_OR_RETURN(Walk walk, WalkOverUses(context, 0, 3));
  return One(program::WithFormula(op.activation, [&]<class Formula>(Formula) {
    return InVectors(walk, context.operands, [&]<class T, int lanes>(Vector<T, lanes>) {
      return Kernel(
          ActivationBackwardElements<Formula, T, lanes>{walk, context.base<T>(0), context.base<T>(1), context.base<T>(2)});
    });
  }));
}

// A third operand walks along that is no memory: its offset is the element's index in the global tensor.
PreparedTask Prepare(const program::Dropout& op, const TaskContext& context) {
  const View index = Slice(RowMajor(DType::kF32, op.global_shape), {op.offset, context.view(1).shape});
  ASSIGN_OR_RETURN(Walk walk, WalkOver({context.view(1), context.view(2), index}));
  const int64_t size = program::SizeInBytes(context.view(1).dtype);
  const Base bases[] = {{context.operands[1].base, size}, {context.operands[2].base, size}, {nullptr, sizeof(float)}};
  const bool wide = LieInVectors(walk, bases, static_cast<int>(kWidestAccess / size));
  return One(InVectorsOf(context.view(1).dtype, wide, [&]<class T, int lanes>(Vector<T, lanes>) {
    return Kernel(
        DropoutElements<T, lanes>{walk, context.at<double>(0), context.base<T>(1), context.base<T>(2), op.rate, op.stream});
  }));
}

// Two kernels for each kMostTensors tensors; what is not one range, from a multiple of 16 bytes, is packed first.
PreparedTask Prepare(const program::CheckFinite&, const TaskContext& context) {
  TaskCalls ready;
  Workspace workspace(context);
  const size_t count = context.operands.size() / 2;
  for (size_t first = 0; first < count; first += FiniteTensors::kMostTensors) {
    FiniteTensors find = {.count = 0, .tensors = {}, .flags = nullptr};
    int64_t blocks = 0;
    for (size_t i = first; i < std::min(count, first + FiniteTensors::kMostTensors); ++i) {
      const int use = static_cast<int>(2 * i);
      const View& view = context.view(use);
      if (view.dtype != DType::kF32) {
        return absl::InvalidArgumentError(
            absl::StrCat("CheckFinite of ", program::Name(view.dtype), "; on CUDA it is for f32"));
      }
      ASSIGN_OR_RETURN(Packed packed, PackInput(context, use, DType::kF32, workspace));
      for (Call& call : packed.before) ready.calls.push_back(std::move(call));
      const int64_t elements = program::ElementCount(view.shape);
      CheckedTensor& tensor = find.tensors[find.count++];
      tensor = {reinterpret_cast<const float*>(packed.data), elements, blocks,
                BlocksFor(elements / FiniteTensors::kLanes, kThreadsOfBlock, kMostBlocks), context.at<int32_t>(use + 1)};
      blocks += tensor.blocks;
    }
    find.flags = workspace.Take<int32_t>(blocks);
    ready.calls.push_back(Kernel(find));
    ready.calls.push_back(Kernel(FlagTensors{find}));
  }
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

}  // namespace colonnade::cuda
