#include "cuda/ops/conv.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/load/space_to_depth.h"
#include "cuda/ops/copy.h"
#include "cuda/ops/elementwise.h"
#include "program/product_uses.h"

namespace colonnade::cuda {

using program::DType;
using program::Shape;

namespace {

// Which operand is which.
struct Uses {
  int x, filter, y;
  int written;
};

// Becomes the calls of one convolution: its extents and its operands packed, and what is called before and after it.
class ConvolutionTask {
 public:
  ConvolutionTask(const TaskContext& context, Convolution::Direction direction, const program::Window& window,
                  int64_t groups)
      : context_(context),
        reorders_before_(context.added_reorders != nullptr ? context.added_reorders->size() : 0),
        workspace_(context) {
    conv_.direction = direction;
    conv_.window = window;
    conv_.groups = groups;
    conv_.precision = context.precision;
    conv_.deterministic = context.deterministic;
  }

  Convolution& conv() { return conv_; }
  Workspace& workspace() { return workspace_; }

  absl::Status Place(const Uses& uses) { return Place(uses, context_.view(uses.written == uses.x ? uses.y : uses.x).dtype); }
  // With factors of `dtype`, whatever they are.
  absl::Status Place(const Uses& uses, DType dtype) {
    const Shape &x = context_.view(uses.x).shape, &y = context_.view(uses.y).shape;
    conv_.dtype = dtype;
    const DType written = conv_.writes_f32 ? DType::kF32 : dtype;
    conv_.n = x[0], conv_.c = x[1], conv_.h = x[2], conv_.w = x[3];
    conv_.k = y[1], conv_.p = y[2], conv_.q = y[3];
    const std::optional<SpaceToDepth>& fold = context_.view(uses.x).folded;
    if (fold.has_value()) Fold(*fold);
    for (const auto& [use, data] : {std::pair(uses.x, &conv_.x), {uses.filter, &conv_.filter}, {uses.y, &conv_.y}}) {
      ASSIGN_OR_RETURN(Packed packed, fold.has_value() && use != uses.y ? PackFolded(uses, use, *fold)
                                      : use == uses.written             ? PackOutput(context_, use, written, workspace_)
                                                                        : PackInput(context_, use, conv_.dtype, workspace_));
      *data = packed.data;
      for (Call& call : packed.before) ready_.calls.push_back(std::move(call));
      for (Call& call : packed.after) after_.push_back(std::move(call));
    }
    return absl::OkStatus();
  }

  // Unimplemented where no algorithm serves.
  PreparedTask Finish() {
    Call call(conv_);
    ASSIGN_OR_RETURN(int64_t bytes, context_.choose(call));
    auto& chosen = std::get<Convolution>(call);
    chosen.workspace_bytes = bytes;
    chosen.workspace = workspace_.Take<char>(bytes);
    ready_.calls.push_back(std::move(call));
    for (Call& next : after_) ready_.calls.push_back(std::move(next));
    ready_.workspace_bytes = workspace_.bytes();
    return std::move(ready_);
  }
  std::vector<Call>& after() { return after_; }
  // Takes back the reorders that it noted, since another task runs instead.
  void Drop() {
    if (context_.added_reorders == nullptr) return;
    context_.added_reorders->erase(context_.added_reorders->begin() + static_cast<ptrdiff_t>(reorders_before_),
                                   context_.added_reorders->end());
  }

 private:
  void Fold(const SpaceToDepth& fold) {
    window_ = conv_.window;
    conv_.window = FoldedWindow(window_, fold);
    conv_.c = fold.channels, conv_.h = fold.rows, conv_.w = fold.columns;
  }

  // Images are folded already, filters are in the workspace.
  absl::StatusOr<Packed> PackFolded(const Uses& uses, int use, const SpaceToDepth& fold) {
    const Operand& operand = context_.operands[use];
    const int64_t size = program::SizeInBytes(conv_.dtype);
    Packed packed;
    if (use == uses.x) {
      packed.data = operand.base + operand.view.offset * size;
      return packed;
    }
    const SpaceToDepth filters = FoldOfFilters(window_, fold);
    packed.data = workspace_.Take<char>(operand.view.shape[0] * filters.elements() * size);
    const Operand folded = {FoldedView(conv_.dtype, operand.view.shape, filters), packed.data};
    if (context_.added_reorders != nullptr) {
      context_.added_reorders->push_back(
          {context_.task.id, absl::StrCat("operand ", use, " folded"), operand.view.shape[0] * filters.elements() * size});
    }
    ASSIGN_OR_RETURN(Call call, use == uses.written ? UnfoldCall(folded, operand) : FoldCall(operand, folded));
    (use == uses.written ? packed.after : packed.before).push_back(std::move(call));
    return packed;
  }

  const TaskContext& context_;
  const size_t reorders_before_;
  Workspace workspace_;
  Convolution conv_;
  program::Window window_;  // before it was folded
  TaskCalls ready_;
  std::vector<Call> after_;
};

// A summand of a sum over devices: f32 from factors in bf16. cuDNN has engines for that which it compiles when they are
// asked for, but none for gradients of groups or for odd numbers of channels. There factors are widened: products of bf16
// are exact in tf32.
PreparedTask PrepareSummand(const TaskContext& context, Convolution::Direction direction, const program::Window& window,
                            int64_t groups, const Uses& uses) {
  ConvolutionTask direct(context, direction, window, groups);
  direct.conv().writes_f32 = true;
  RETURN_IF_ERROR(direct.Place(uses));
  PreparedTask ready = direct.Finish();
  if (ready.ok() || !absl::IsUnimplemented(ready.status())) return ready;
  direct.Drop();

  ConvolutionTask widened(context, direction, window, groups);
  widened.conv().precision = Precision::kTf32;
  RETURN_IF_ERROR(widened.Place(uses, DType::kF32));
  return widened.Finish();
}

}  // namespace

PreparedTask Prepare(const program::ConvForward& op, const TaskContext& context) {
  const auto [x, w, y, bias] = program::ForwardUses(op.bias);
  const Uses uses = {x, w, y, /*written=*/y};
  if (context.view(y).dtype != context.view(x).dtype) {
    return PrepareSummand(context, Convolution::Direction::kForward, op.window, op.groups, uses);
  }
  ConvolutionTask fused(context, Convolution::Direction::kForward, op.window, op.groups);
  RETURN_IF_ERROR(fused.Place(uses));
  if (op.bias) {
    fused.conv().bias = context.operands[bias].base + context.view(bias).offset * SizeInBytes(context.view(bias).dtype);
  }
  fused.conv().relu = op.relu;
  PreparedTask ready = fused.Finish();
  if (ready.ok() || !absl::IsUnimplemented(ready.status()) || !(op.bias || op.relu)) return ready;
  fused.Drop();

  ConvolutionTask task(context, Convolution::Direction::kForward, op.window, op.groups);
  RETURN_IF_ERROR(task.Place(uses));
  ASSIGN_OR_RETURN(Call rest, BiasAndReluCall(context.operands[y], op.bias ? &context.operands[bias] : nullptr, op.relu));
  task.after().push_back(std::move(rest));
  return task.Finish();
}

PreparedTask Prepare(const program::ConvBackwardData& op, const TaskContext& context) {
  const Uses uses{2, 1, 0, /*written=*/2};
  if (context.view(2).dtype != context.view(0).dtype) {
    return PrepareSummand(context, Convolution::Direction::kBackwardData, op.window, op.groups, uses);
  }
  ConvolutionTask task(context, Convolution::Direction::kBackwardData, op.window, op.groups);
  RETURN_IF_ERROR(task.Place(uses));
  return task.Finish();
}

PreparedTask Prepare(const program::ConvBackwardWeights& op, const TaskContext& context) {
  ConvolutionTask task(context, Convolution::Direction::kBackwardWeights, op.window, op.groups);
  RETURN_IF_ERROR(task.Place({0, 2, 1, /*written=*/2}));
  if (op.bias) {
    absl::Status status = AppendChannelSums(context.operands[1], context.operands[3], task.workspace(), task.after());
    if (!status.ok()) return status;
  }
  return task.Finish();
}

}  // namespace colonnade::cuda
