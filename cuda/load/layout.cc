#include "cuda/load/layout.h"

#include <optional>
#include <vector>

#include "cuda/load/space_to_depth.h"

namespace colonnade::cuda {

using program::Buffer;
using program::BufferId;
using program::Program;

namespace {

// Images that were put here from what is loaded, and are read by nothing but convolutions of one kind, folded for them; by
// buffer.
class ImageFolds {
 public:
  ImageFolds(const Program& program, Precision precision) : program_(program), precision_(precision) {
    folds_.resize(program.buffers.size());
    may_fold_.resize(program.buffers.size(), false);
    for (const program::Task& task : program.tasks) {
      if (!PutsImages(task)) continue;
      const Buffer& buffer = program.buffer(task.uses[1].buffer);
      may_fold_[buffer.id.value] = std::holds_alternative<program::Root>(buffer.storage) && buffer.shape.size() == 4;
    }
    for (const program::Task& task : program.tasks) {
      for (size_t use = 0; use < task.uses.size(); ++use) Note(task, use);
    }
  }
  const std::optional<SpaceToDepth>& of(BufferId buffer) const { return folds_[buffer.value]; }

 private:
  void Note(const program::Task& task, size_t use) {
    const Buffer& buffer = program_.buffer(task.uses[use].buffer);
    const BufferId root = program::RootOf(program_, buffer.id);
    if (!may_fold_[root.value] || PutsImages(task)) return;
    const bool is_whole = buffer.id == root && use == 0 && task.uses[use].region == program::Region::Whole(buffer.shape);
    const std::optional<SpaceToDepth> fold = is_whole ? FoldFor(task, buffer) : std::nullopt;
    std::optional<SpaceToDepth>& known = folds_[root.value];
    if (fold.has_value() && (!known.has_value() || known == fold)) {
      known = fold;
    } else {
      may_fold_[root.value] = false;
      known.reset();
    }
  }

  // A copy of what is loaded, or what makes values of its bytes.
  bool PutsImages(const program::Task& task) const {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr || !program::UsesSlots(program_, task)) return false;
    return std::holds_alternative<program::Copy>(compute->op) || std::holds_alternative<program::Normalise>(compute->op);
  }
  std::optional<SpaceToDepth> FoldFor(const program::Task& task, const Buffer& x) const {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) return std::nullopt;
    // What makes summands of another type may widen its operands.
    const auto with = [&](const auto& op, const program::BufferUse& y) {
      return op.groups == 1 && program_.buffer(y.buffer).dtype == x.dtype
                 ? FoldOfImages(op.window, x.shape, y.region.size, x.dtype, precision_)
                 : std::nullopt;
    };
    if (const auto* forward = std::get_if<program::ConvForward>(&compute->op)) return with(*forward, task.uses.back());
    if (const auto* weights = std::get_if<program::ConvBackwardWeights>(&compute->op)) return with(*weights, task.uses[1]);
    return std::nullopt;
  }

  const Program& program_;
  const Precision precision_;
  std::vector<std::optional<SpaceToDepth>> folds_;
  std::vector<bool> may_fold_;
};

}  // namespace

Layouts ChooseLayouts(const Program& program, Precision precision) {
  const ImageFolds folds(program, precision);
  std::vector<bool> is_loaded(program.buffers.size(), false);  // row-major, as the host has it
  for (const program::Input& input : program.inputs) {
    for (const program::Piece& piece : input.pieces) is_loaded[piece.buffer.value] = true;
  }
  const auto layout_of = [&](const Buffer& buffer) -> engine::TensorLayout<View> {
    const int64_t size = program::SizeInBytes(buffer.dtype);
    if (const std::optional<SpaceToDepth>& fold = folds.of(buffer.id); fold.has_value()) {
      return {FoldedView(buffer.dtype, buffer.shape, *fold), buffer.shape[0] * fold->elements() * size};
    }
    const View view =
        is_loaded[buffer.id.value] ? RowMajor(buffer.dtype, buffer.shape) : Natural(buffer.dtype, buffer.shape);
    return {view, program::ElementCount(buffer.shape) * size};
  };
  return engine::LayOut<View>(program, kAlignment, layout_of, RowMajor);
}

}  // namespace colonnade::cuda
