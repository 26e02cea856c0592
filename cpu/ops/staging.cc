#include "cpu/ops/staging.h"

#include <cstring>
#include <utility>

#include "cpu/load/arena.h"
#include "cpu/load/box.h"
#include "cpu/ops/copy.h"
#include "program/status_macros.h"

namespace colonnade::cpu {

namespace {

// One operand that has a dense copy in the workspace.
struct Stage {
  int use;
  program::Access access;
  int64_t element_bytes;
  int64_t workspace_offset;
  BoxPlan plan;  // of the box, then its dense copy
};

class StagedKernel : public Kernel {
 public:
  StagedKernel(std::vector<Stage> stages, int64_t stage_bytes, int threads, std::unique_ptr<Kernel> dense)
      : stages_(std::move(stages)), stage_bytes_(stage_bytes), threads_(threads), dense_(std::move(dense)) {}

  int64_t workspace_bytes() const override { return stage_bytes_ + dense_->workspace_bytes(); }

  void Bind(absl::Span<char* const> data, char* workspace) override {
    boxes_.assign(data.begin(), data.end());
    copies_ = boxes_;
    for (const Stage& stage : stages_) copies_[stage.use] = workspace + stage.workspace_offset;
    dense_->Bind(copies_, workspace + stage_bytes_);
  }

  absl::Status Run(int64_t step) override {
    for (const Stage& stage : stages_) {
      if (stage.access == program::Access::kWrite) continue;
      CopyRows(stage.plan, threads_, stage.element_bytes, boxes_[stage.use], copies_[stage.use]);
    }
    RETURN_IF_ERROR(dense_->Run(step));
    for (const Stage& stage : stages_) {
      if (stage.access == program::Access::kRead) continue;
      CopyRows(stage.plan, threads_, stage.element_bytes, boxes_[stage.use], copies_[stage.use], /*backwards=*/true);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Stage> stages_;
  int64_t stage_bytes_;
  int threads_;
  std::unique_ptr<Kernel> dense_;
  std::vector<char*> boxes_, copies_;
};

}  // namespace

PreparedKernel PrepareStaged(const TaskContext& context, int weights,
                             absl::FunctionRef<PreparedKernel(const TaskContext&)> prepare) {
  TaskContext dense = context;
  std::vector<Stage> stages;
  int64_t stage_bytes = 0;
  for (size_t use = 0; use < context.operands.size(); ++use) {
    const View& view = context.operands[use].view;
    if (view.kind == View::Kind::kOpaque) continue;
    const View natural = Natural(view.dtype, view.shape);
    if (IsDense(view) && (view.kind == natural.kind || static_cast<int>(use) == weights)) continue;
    const int64_t size = program::SizeInBytes(view.dtype);
    stages.push_back({static_cast<int>(use), context.operands[use].access, size, stage_bytes, BoxPlan({view, natural})});
    dense.operands[use].view = natural;
    const int64_t bytes = MemoryElements(natural) * size;
    stage_bytes += RoundUp(bytes, kAlignment);
    context.added_reorders->push_back({context.task.id, "box of a buffer to dense memory", 2 * bytes});
  }
  PreparedKernel kernel = prepare(dense);
  if (!kernel.ok() || stages.empty()) return kernel;
  return {std::make_unique<StagedKernel>(std::move(stages), stage_bytes, context.threads, *std::move(kernel))};
}

}  // namespace colonnade::cpu
