#include "cpu/ops/staging.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"
#include "cpu/alignment.h"
#include "cpu/load/box.h"
#include "cpu/ops/copy.h"
#include "cpu/ops/primitive.h"
#include "program/formulas/rounding.h"

namespace colonnade::cpu {

using program::RoundUp;

namespace {

// One operand that has a dense copy in the workspace.
struct StagedOperand {
  int use;
  program::Access access;
  program::DType type, copy_type;
  int64_t workspace_offset;
  BoxPlan plan = {};  // of the box, then its dense copy
  // Of a layout of oneDNN's choice, instead of the plan: into the copy or, of what is written, from it. Its workspace.
  std::unique_ptr<PrimitiveKernel> reorder = nullptr;
  int64_t reorder_offset = 0;
};

class StagedKernel : public Kernel {
 public:
  StagedKernel(std::vector<StagedOperand> stages, int64_t stage_bytes, int threads, std::unique_ptr<Kernel> dense)
      : stages_(std::move(stages)), stage_bytes_(stage_bytes), threads_(threads), dense_(std::move(dense)) {}

  int64_t workspace_bytes() const override { return stage_bytes_ + dense_->workspace_bytes(); }

  void Bind(absl::Span<char* const> data, char* workspace) override {
    boxes_.assign(data.begin(), data.end());
    copies_ = boxes_;
    for (const StagedOperand& staged : stages_) {
      copies_[staged.use] = workspace + staged.workspace_offset;
      if (staged.reorder == nullptr) continue;
      std::vector<char*> both = boxes_;
      both.push_back(copies_[staged.use]);
      staged.reorder->Bind(both, workspace + staged.reorder_offset);
    }
    dense_->Bind(copies_, workspace + stage_bytes_);
  }

  absl::Status Run(int64_t step) override {
    for (const StagedOperand& staged : stages_) {
      if (program::Reads(staged.access)) RETURN_IF_ERROR(Move(staged, step, /*backwards=*/false));
    }
    RETURN_IF_ERROR(dense_->Run(step));
    for (const StagedOperand& staged : stages_) {
      if (program::Writes(staged.access)) RETURN_IF_ERROR(Move(staged, step, /*backwards=*/true));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Move(const StagedOperand& staged, int64_t step, bool backwards) {
    if (staged.reorder != nullptr) return staged.reorder->Run(step);
    char *box = boxes_[staged.use], *copy = copies_[staged.use];
    if (staged.type == staged.copy_type) {
      CopyRows(staged.plan, threads_, program::SizeInBytes(staged.type), box, copy, backwards);
    } else {
      ConvertRows(staged.plan, threads_, staged.type, box, staged.copy_type, copy, backwards);
    }
    return absl::OkStatus();
  }

  std::vector<StagedOperand> stages_;
  int64_t stage_bytes_;
  int threads_;
  std::unique_ptr<Kernel> dense_;
  std::vector<char*> boxes_, copies_;
};

// Between operand `use`, in a layout of oneDNN's choice, and rows, which stand behind all operands.
absl::StatusOr<std::unique_ptr<PrimitiveKernel>> ReorderOf(const TaskContext& context, int use, const View& rows) {
  const Operand& operand = context.operands[use];
  if (operand.view.desc == nullptr) return absl::InvalidArgumentError("the content of this buffer is the backend's own");
  if (operand.access == program::Access::kAccumulate) return absl::UnimplementedError("an update in rows");
  TaskContext with_rows = context;
  with_rows.operands.push_back({rows});
  const int copy = static_cast<int>(context.operands.size());
  const MemoryDesc desc = DescOf(operand.view), plain = PlainDescLike(desc, TypeOf(DescOf(rows)));
  auto reorder = std::make_unique<PrimitiveKernel>(with_rows);
  if (operand.access == program::Access::kRead) {
    reorder->SetReorder(use, desc, copy, plain);
  } else {
    reorder->SetReorder(copy, plain, use, desc);
  }
  return reorder;
}

// What `prepare` makes of operands in the layouts wanted(view, use), or as they are where that is nothing.
template <class Wanted>
PreparedKernel PrepareAs(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare,
                         const Wanted& wanted) {
  TaskContext dense = context;
  std::vector<StagedOperand> stages;
  int64_t stage_bytes = 0;
  for (int use = 0; use < static_cast<int>(context.operands.size()); ++use) {
    const View& view = context.view(use);
    const std::optional<View> copy = wanted(view, use);
    if (!copy.has_value()) continue;
    const int64_t bytes = MemoryElements(*copy) * program::SizeInBytes(copy->dtype);
    const int64_t moved = MemoryElements(*copy) * program::SizeInBytes(view.dtype) + bytes;
    StagedOperand staged = {use, context.operands[use].access, view.dtype, copy->dtype, stage_bytes};
    stage_bytes += RoundUp(bytes, kAlignmentBytes);
    if (view.kind == View::Kind::kOpaque) {
      ASSIGN_OR_RETURN(staged.reorder, ReorderOf(context, use, *copy));
      staged.reorder_offset = stage_bytes;
      stage_bytes += RoundUp(staged.reorder->workspace_bytes(), kAlignmentBytes);
      context.added_reorders->push_back({context.task.id, "weights between a layout of oneDNN and rows", moved});
    } else {
      staged.plan = BoxPlan({view, *copy});
      const bool converts = staged.type != staged.copy_type;
      context.added_reorders->push_back(
          {context.task.id, converts ? "bf16 for a kernel of f32" : "box of a buffer to dense memory", moved});
    }
    dense.operands[use].view = *copy;
    stages.push_back(std::move(staged));
  }
  PreparedKernel kernel = prepare(dense);
  if (!kernel.ok() || stages.empty()) return kernel;
  return {std::make_unique<StagedKernel>(std::move(stages), stage_bytes, context.threads, *std::move(kernel))};
}

// Whether all images lie in rows, dense or not.
bool ImagesInRows(const TaskContext& context) {
  return absl::c_all_of(context.operands, [](const Operand& operand) {
    const View& view = operand.view;
    return view.shape.size() != 4 || view.kind != View::Kind::kBlocked;
  });
}

}  // namespace

PreparedKernel PrepareStaged(const TaskContext& context, int weights,
                             absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare) {
  const bool in_rows = ImagesInRows(context);
  return PrepareAs(context, prepare, [weights, in_rows](const View& view, int use) -> std::optional<View> {
    if (view.kind == View::Kind::kOpaque) return std::nullopt;
    const View wanted = (in_rows ? RowMajor : Natural)(view.dtype, view.shape);
    if (IsDense(view) && (view.kind == wanted.kind || use == weights)) return std::nullopt;
    return wanted;
  });
}

PreparedKernel PrepareDense(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare) {
  return PrepareAs(context, prepare, [](const View& view, int) -> std::optional<View> {
    if (view.kind == View::Kind::kOpaque || IsDense(view)) return std::nullopt;
    return Natural(view.dtype, view.shape);
  });
}

PreparedKernel PrepareInRows(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare) {
  return PrepareAs(context, prepare, [](const View& view, int) -> std::optional<View> {
    const View rows = RowMajor(view.dtype, view.shape);
    if (view.kind == View::Kind::kAffine && SameLayout(view, rows)) return std::nullopt;
    return rows;
  });
}

PreparedKernel PrepareInF32(const TaskContext& context, absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare) {
  return PrepareAs(context, prepare, [](const View& view, int) -> std::optional<View> {
    if (view.dtype != program::DType::kBF16) return std::nullopt;
    const bool blocked = view.kind == View::Kind::kBlocked;
    return (blocked ? Natural : RowMajor)(program::DType::kF32, view.shape);
  });
}

}  // namespace colonnade::cpu
