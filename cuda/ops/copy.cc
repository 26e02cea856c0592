#include "cuda/ops/copy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/load/space_to_depth.h"
#include "program/status_macros.h"

namespace colonnade::cuda {

using program::DType;
using program::Region;
using program::Shape;

namespace {

constexpr int64_t kLargeInput = int64_t{64} << 10;  // less is copied at once

// The same elements of two views lie at equal distances, in one range.
bool AreOneRange(const View& a, const View& b) { return a.shape == b.shape && IsDense(a) && IsDense(b); }

// The samples [first, first + n) of a global row-major tensor, which hold `region`, and the region's box in them.
struct Rows {
  int64_t first_element = 0;
  Shape shape;
  Region box;
};
Rows RowsOf(const Shape& global, const Region& region) {
  Rows rows{0, global, region};
  if (global.empty()) return rows;
  rows.first_element = region.offset[0] * (program::ElementCount(global) / std::max<int64_t>(global[0], 1));
  rows.shape[0] = region.size[0];
  rows.box.offset[0] = 0;
  return rows;
}

// The piece of `pieces` that `buffer` holds.
template <class Pieces>
int PieceOf(const Pieces& pieces, program::BufferId buffer) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].buffer == buffer) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

namespace {

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

// Host memory is row-major and contiguous by sample: whole samples are copied, and what lies otherwise on the device is put
// in place by a kernel. What is large, or not in place yet, lands in memory of its own while the step before still computes.
PreparedTask Prepare(const program::Load& op, const TaskContext& context) {
  const program::Input& input = context.program.inputs[op.input];
  const View& y = context.view(0);
  const int piece = PieceOf(input.pieces, context.task.uses[0].buffer);
  const bool rounds = input.host_dtype == DType::kF32 && y.dtype == DType::kBF16;
  if (piece < 0 || (input.host_dtype != y.dtype && !rounds)) {
    return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " of ", program::Name(input.host_dtype),
                                                   " into a buffer of ", program::Name(y.dtype)));
  }
  const Rows rows = RowsOf(input.shape, input.pieces[piece].region);
  const int64_t size = program::SizeInBytes(input.host_dtype), bytes = program::ElementCount(rows.shape) * size;
  const View staged = RowMajor(input.host_dtype, rows.shape);
  const View box = Slice(staged, rows.box);
  const std::optional<View> target = y.folded.has_value() ? std::optional(y) : Reshape(y, box.shape);
  if (!target.has_value()) return absl::UnimplementedError("a load into this layout");
  const bool in_place = !rounds && target->strides == staged.strides && box.shape == staged.shape;
  ReadyTask ready;
  const int64_t landing_bytes = engine::RoundUp(bytes, kAlignment);
  for (int slot = 0; slot < 2; ++slot) {
    const char* host = static_cast<const char*>(context.slots[slot].inputs[op.input]);
    if (host != nullptr) host += rows.first_element * size;  // null where only the need of memory is asked for
    std::vector<Call>& calls = slot == 0 ? ready.calls : ready.odd_calls;
    if (in_place && bytes < kLargeInput) {
      calls.push_back(CopyBytes{context.operands[0].base + y.offset * size, host, bytes, context.gpu, -1});
      continue;
    }
    char* landing = context.landing + slot * landing_bytes;
    ready.landing_bytes += landing_bytes;
    ready.fetches[slot].push_back(CopyBytes{landing, host, bytes, context.gpu, -1});
    const Operand landed = {box, landing}, placed = {*target, context.operands[0].base};
    ASSIGN_OR_RETURN(Call place,
                     y.folded.has_value() ? FoldCall(landed, placed) : CopyCall(landed, placed, context.gpu, context.gpu));
    calls.push_back(std::move(place));
  }
  return ready;
}

PreparedTask Prepare(const program::Store& op, const TaskContext& context) {
  const program::Output& output = context.program.outputs[op.output];
  const View& x = context.view(0);
  const int piece = PieceOf(output.pieces, context.task.uses[0].buffer);
  if (piece < 0) return absl::InvalidArgumentError(absl::StrCat("output ", output.name, " has no such piece"));
  const int64_t size = program::SizeInBytes(x.dtype), count = program::ElementCount(x.shape);
  ReadyTask ready;
  Workspace workspace(context);
  const View plain = RowMajor(x.dtype, x.shape);
  const bool direct = plain.strides == x.strides;
  char* start = direct ? context.operands[0].base + x.offset * size : workspace.Take<char>(count * size);
  for (int slot = 0; slot < 2; ++slot) {
    std::vector<Call>& calls = slot == 0 ? ready.calls : ready.odd_calls;
    if (!direct) {
      ASSIGN_OR_RETURN(Call pack, CopyCall(context.operands[0], {plain, start}, context.gpu, context.gpu));
      calls.push_back(std::move(pack));
    }
    calls.push_back(CopyBytes{context.slots[slot].outputs[op.output][piece], start, count * size, -1, context.gpu});
  }
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
  ASSIGN_OR_RETURN(Call call, CopyCall(x, y, context.gpu, context.gpu));
  ReadyTask ready;
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
