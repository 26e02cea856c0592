#include "cuda/ops/copy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cuda/load/space_to_depth.h"
#include "cuda/ops/pool.h"
#include "program/strides.h"

namespace colonnade::cuda {

using program::DType;
using program::Region;
using program::Shape;

namespace {

// The same elements of two views lie at equal distances, in one range.
bool AreOneRange(const View& a, const View& b) { return a.shape == b.shape && IsDense(a) && IsDense(b); }

// How many elements of a row-major view are neighbours.
int64_t ElementsOfRun(const View& view) {
  int64_t elements = 1;
  for (size_t d = view.shape.size(); d-- > 0 && view.strides[d] == elements;) elements *= view.shape[d];
  return elements;
}

// Calls f(element) with the place of the first element of each run of `elements`, in row-major order.
template <class F>
void ForEachRun(const View& view, int64_t elements, const F& f) {
  const int64_t runs = program::ElementCount(view.shape) / std::max<int64_t>(elements, 1);
  for (int64_t run = 0; run < runs; ++run) {
    int64_t at = view.offset, left = run * elements;
    for (size_t d = view.shape.size(); d-- > 0;) {
      at += left % view.shape[d] * view.strides[d];
      left /= view.shape[d];
    }
    f(at);
  }
}

template <class From, class To>
Call ConvertWith(const Walk& walk, const Operand& x, const Operand& y) {
  constexpr int kLanes = kLanesOf<program::BFloat16>;
  const auto* from = reinterpret_cast<const From*>(x.base);
  auto* to = reinterpret_cast<To*>(y.base);
  if (LieInVectors(walk, {{x.base, sizeof(From)}, {y.base, sizeof(To)}}, kLanes)) {
    return Kernel(ConvertElements<From, To, kLanes>{walk, from, to});
  }
  return Kernel(ConvertElements<From, To, 1>{walk, from, to});
}

// The same bytes as fewer elements of 16 bytes, or as they are.
CopyElements CopyOf(Walk walk, const Operand& x, const Operand& y, int size) {
  const int lanes = kWidestAccess / size;
  if (!LieInVectors(walk, {{x.base, size}, {y.base, size}}, lanes)) return {walk, x.base, y.base, size};
  walk.count /= lanes;
  walk.extent[0] /= lanes;
  for (int v = 0; v < 2; ++v) {
    walk.offset[v] /= lanes;
    for (int d = 1; d < walk.rank; ++d) walk.stride[v][d] /= lanes;
  }
  return {walk, x.base, y.base, kWidestAccess};
}

absl::StatusOr<Call> ConvertCall(const Operand& x, const Operand& y) {
  ASSIGN_OR_RETURN(Walk walk, WalkOver({x.view, y.view}));
  const DType from = x.view.dtype, to = y.view.dtype;
  if (from == DType::kF32 && to == DType::kBF16) return ConvertWith<float, program::BFloat16>(walk, x, y);
  if (from == DType::kBF16 && to == DType::kF32) return ConvertWith<program::BFloat16, float>(walk, x, y);
  return absl::InvalidArgumentError(absl::StrCat("a copy from ", program::Name(from), " to ", program::Name(to)));
}

}  // namespace

absl::StatusOr<Call> CopyCall(const Operand& x, const Operand& y, int from_gpu, int to_gpu) {
  const int size = static_cast<int>(program::SizeInBytes(x.view.dtype));
  if (x.view.dtype != y.view.dtype) return ConvertCall(x, y);
  if (AreOneRange(x.view, y.view)) {
    return CopyBytes{y.base + y.view.offset * size, x.base + x.view.offset * size,
                     program::ElementCount(x.view.shape) * size, to_gpu, from_gpu};
  }
  ASSIGN_OR_RETURN(Walk walk, WalkOver({x.view, y.view}));
  return Kernel(CopyOf(walk, x, y, size));
}

// Host memory and what is loaded from it are row-major (ChooseLayouts): each run of neighbours is copied, which whole
// samples are one of.
PreparedTask Prepare(const program::Load& op, const TaskContext& context) {
  const program::Input& input = context.program.inputs[op.input];
  const View& y = context.view(0);
  const int piece = program::FindPiece(input.pieces, context.task.uses[0].buffer);
  if (piece < 0) return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " has no such piece"));
  const View host = Slice(RowMajor(input.host_dtype, input.shape), input.pieces[piece].region);
  if (y.strides != RowMajor(y.dtype, y.shape).strides) return absl::UnimplementedError("a load into this layout");
  const int64_t size = program::SizeInBytes(input.host_dtype);
  char* from = static_cast<char*>(context.host->inputs[op.input]);  // null where only the need of memory is asked for
  char* to = context.operands[0].base + y.offset * size;
  TaskCalls ready;
  const int64_t elements = ElementsOfRun(host);
  ForEachRun(host, elements, [&](int64_t at) {
    ready.calls.push_back(CopyBytes{to, from != nullptr ? from + at * size : nullptr, elements * size, context.gpu, -1});
    to += elements * size;
  });
  return ready;
}

PreparedTask Prepare(const program::Normalise& op, const TaskContext& context) {
  const size_t channels = op.scale.size();
  if (channels > kMostScaledChannels || context.view(1).shape.size() != 4) {
    return absl::UnimplementedError(absl::StrCat("images of ", base::Counted(channels, "channel"), " in ",
                                                 base::Counted(context.view(1).shape.size(), "dimension"),
                                                 "; expected [n,C,H,W] of at most ", kMostScaledChannels));
  }
  ChannelScaling scaling;
  std::copy(op.scale.begin(), op.scale.end(), scaling.scale);
  std::copy(op.shift.begin(), op.shift.end(), scaling.shift);
  Operand x = context.operands[0];
  x.view.shape = program::ChannelsFirst(x.view.shape);
  x.view.strides = program::ChannelsFirst(x.view.strides);
  const Operand& y = context.operands[1];
  TaskCalls ready;
  ready.calls.push_back(InTypeOf(y.view.dtype, [&]<class T>(T) {
    const auto* from = reinterpret_cast<const uint8_t*>(x.base) + x.view.offset;
    T* to = reinterpret_cast<T*>(y.base) + y.view.offset;
    return y.view.folded.has_value()
               ? Call(Kernel(FoldPixels<uint8_t, T>{ImageOf(x.view), *y.view.folded, from, to, scaling}))
               : Call(Kernel(ScalePixels<T>{ImageOf(x.view), ImageOf(y.view), scaling, from, to}));
  }));
  return ready;
}

PreparedTask Prepare(const program::Store& op, const TaskContext& context) {
  const program::Output& output = context.program.outputs[op.output];
  const View& x = context.view(0);
  const int piece = program::FindPiece(output.pieces, context.task.uses[0].buffer);
  if (piece < 0) return absl::InvalidArgumentError(absl::StrCat("output ", output.name, " has no such piece"));
  const int64_t size = program::SizeInBytes(x.dtype), count = program::ElementCount(x.shape);
  TaskCalls ready;
  Workspace workspace(context);
  const View plain = RowMajor(x.dtype, x.shape);
  const bool direct = plain.strides == x.strides;
  char* start = direct ? context.operands[0].base + x.offset * size : workspace.Take<char>(count * size);
  if (!direct) {
    ASSIGN_OR_RETURN(Call pack, CopyCall(context.operands[0], {plain, start}, context.gpu, context.gpu));
    ready.calls.push_back(std::move(pack));
  }
  ready.calls.push_back(CopyBytes{context.host->outputs[op.output][piece], start, count * size, -1, context.gpu});
  ready.workspace_bytes = workspace.bytes();
  return ready;
}

// Shapes of different rank are matched in row-major order: the one of more dimensions walks through the other.
PreparedTask Prepare(const program::Copy&, const TaskContext& context) {
  Operand x = context.operands[0], y = context.operands[1];
  if (x.view.shape != y.view.shape) {
    const bool from_finer = x.view.shape.size() >= y.view.shape.size();
    Operand& coarse = from_finer ? y : x;
    const std::optional<View> finer = Reshape(coarse.view, from_finer ? x.view.shape : y.view.shape);
    if (!finer.has_value()) {
      return absl::UnimplementedError(absl::StrCat("a copy from ", program::ToString(x.view.shape), " to ",
                                                   program::ToString(y.view.shape), " in these layouts"));
    }
    coarse.view = *finer;
  }
  ASSIGN_OR_RETURN(Call call, y.view.folded.has_value() ? FoldCall(x, y) : CopyCall(x, y, context.gpu, context.gpu));
  TaskCalls ready;
  ready.calls.push_back(std::move(call));
  return ready;
}

namespace {

absl::StatusOr<Packed> Pack(const TaskContext& context, int use, DType dtype, Workspace& workspace, bool input) {
  const Operand& operand = context.operands[use];
  Packed packed;
  // cuDNN and vectors want tensors at multiples of 16 bytes.
  const int64_t size = program::SizeInBytes(dtype), bytes = program::ElementCount(operand.view.shape) * size;
  const bool aligned = operand.view.offset * size % 16 == 0;
  if (operand.view.dtype == dtype && IsDense(operand.view) && aligned) {
    packed.data = operand.base + operand.view.offset * size;
    return packed;
  }
  packed.data = workspace.Take<char>(bytes);
  const Operand dense = {Natural(dtype, operand.view.shape), packed.data};
  ASSIGN_OR_RETURN(Call call, input ? CopyCall(operand, dense, context.gpu, context.gpu)
                                    : CopyCall(dense, operand, context.gpu, context.gpu));
  (input ? packed.before : packed.after).push_back(std::move(call));
  if (context.added_reorders != nullptr) {
    context.added_reorders->push_back({context.task.id, absl::StrCat("operand ", use, " packed"), bytes});
  }
  return packed;
}

}  // namespace

absl::StatusOr<Packed> PackInput(const TaskContext& context, int use, DType dtype, Workspace& workspace) {
  return Pack(context, use, dtype, workspace, /*input=*/true);
}
absl::StatusOr<Packed> PackOutput(const TaskContext& context, int use, DType dtype, Workspace& workspace) {
  return Pack(context, use, dtype, workspace, /*input=*/false);
}

}  // namespace colonnade::cuda
