#include "cpu/load/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cpu/alignment.h"
#include "cpu/ops/conv.h"
#include "cpu/ops/conv_rows.h"
#include "cpu/ops/conv_winograd.h"
#include "cpu/ops/gemm.h"
#include "cpu/ops/pool.h"
#include "program/collective_moves.h"
#include "program/meetings.h"
#include "program/op_table.h"

namespace colonnade::cpu {

using program::Buffer;
using program::BufferId;
using program::BufferUse;
using program::DType;
using program::Program;
using program::Region;
using program::Shape;
using program::Task;

namespace {

// Classes of buffers that share one layout, and so one element type.
class LayoutClasses {
 public:
  explicit LayoutClasses(const Program& program) : program_(program), parent_(program.buffers.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.layout_as.valid() || program.buffer(buffer.layout_as).dtype != buffer.dtype) continue;
      Join(buffer.id, buffer.layout_as);
    }
    const program::Meetings meetings(program);
    for (const Task& task : program.tasks) {
      if (const auto* compute = std::get_if<program::Compute>(&task.body)) {
        LinkOperands(*compute, task);
        continue;
      }
      const Task& first = program.task(meetings.SidesOf(task.id).front());
      if (std::holds_alternative<program::Collective>(task.body)) {
        for (size_t use = 0; use < task.uses.size(); ++use) Link(task.uses[use], first.uses[use]);
        Link(task.uses.front(), task.uses.back());
      } else if (first.id != task.id) {
        Link(task.uses.front(), first.uses.back());
        Link(task.uses.back(), first.uses.front());
      }
    }
  }

  int ClassOf(BufferId id) {
    int at = id.value;
    while (parent_[at] != at) {
      parent_[at] = parent_[parent_[at]];
      at = parent_[at];
    }
    return at;
  }

 private:
  void Join(BufferId a, BufferId b) { parent_[ClassOf(a)] = ClassOf(b); }

  // Tensors that a kernel wants to lie alike.
  void LinkOperands(const program::Compute& compute, const Task& task) {
    const program::LayoutRule rule = program::LayoutRuleOf(compute.op);
    if (rule != program::LayoutRule::kAlike && rule != program::LayoutRule::kArgmax) return;
    const std::optional<program::OperandTraits> traits = program::TraitsOfOperands(compute.op, task.uses.size());
    const BufferUse* first = nullptr;
    for (size_t use = 0; use < task.uses.size(); ++use) {
      const program::Role role = (*traits)[use]->role;
      if (program::TypeOf(role).has_value() && role != program::Role::kArgmax) continue;  // numbers of the op's own
      if (first != nullptr) Link(*first, task.uses[use]);
      if (first != nullptr) LinkImages(*first, task.uses[use]);
      if (first == nullptr) first = &task.uses[use];
    }
  }

  // An argmax says in which layout a pooling's images lie, so it binds those of the pooling's backward, too.
  void LinkImages(const BufferUse& a, const BufferUse& b) {
    const Buffer &x = program_.buffer(a.buffer), &y = program_.buffer(b.buffer);
    if (x.shape.size() == 4 && y.shape.size() == 4) Join(x.id, y.id);
  }

  void Link(const BufferUse& a, const BufferUse& b) {
    const Buffer &x = program_.buffer(a.buffer), &y = program_.buffer(b.buffer);
    const auto* bucket_x = std::get_if<program::Bucket>(&x.storage);
    const auto* bucket_y = std::get_if<program::Bucket>(&y.storage);
    if (bucket_x != nullptr && bucket_y != nullptr && bucket_x->members.size() == bucket_y->members.size()) {
      for (size_t i = 0; i < bucket_x->members.size(); ++i) Join(bucket_x->members[i], bucket_y->members[i]);
    }
    if (bucket_x == nullptr && bucket_y == nullptr && x.shape == y.shape && x.dtype == y.dtype) Join(x.id, y.id);
  }

  const Program& program_;
  std::vector<int> parent_;
};

// A convolution that is faster by rows, or is not.
struct ConvolutionVote {
  int x, y;  // classes
  bool faster_by_rows;
  double products;
};

// The shapes that decide on a layout of weights.
struct WeightsUse {
  BufferId w;
  DType dtype;  // of x
  View x, y;
};

class Chooser {
 public:
  Chooser(const Program& program, CpuOptions::Kernels kernels, const dnnl::engine& engine)
      : program_(program),
        kernels_(kernels),
        engine_(engine),
        classes_(program),
        desc_(program.buffers.size()),
        decided_(program.buffers.size()),
        parameter_(program.buffers.size()),
        in_rows_(program.buffers.size()),
        argmax_bytes_(program.buffers.size(), -1) {
    for (const Buffer& buffer : program.buffers) {
      const bool member = std::holds_alternative<program::BucketMember>(buffer.storage);
      if (member || buffer.lifetime == program::Lifetime::kPersistent) MarkParameter(buffer.id);
    }
  }

  absl::Status TakeKnown(const KnownLayouts& known);
  // Classes that something needs in row-major order: boxes, collectives that cut.
  absl::Status DecideRowMajor();
  // Classes of images that lie in rows though they could be channel-blocked.
  void DecideImages();
  // Classes of weights, and the sizes of argmax operands.
  absl::Status DecideByOps();

  Layouts Finish() {
    const auto layout_of = [&](const Buffer& buffer) -> engine::TensorLayout<View> {
      View view = ViewOfRoot(buffer);
      const int64_t bytes = MemoryElements(view) * program::SizeInBytes(view.dtype);
      return {std::move(view), bytes};
    };
    return engine::LayOut<View>(program_, kAlignmentBytes, layout_of, RowMajor);
  }

 private:
  void Decide(BufferId id, OpaqueDesc desc) {
    const int c = classes_.ClassOf(id);
    if (!decided_[c]) desc_[c] = std::move(desc);
    decided_[c] = true;
  }
  // Decides for row-major order. FailedPrecondition where what is held already lies otherwise.
  absl::Status NeedRowMajor(BufferId id);
  void MarkParameter(BufferId id) { parameter_[classes_.ClassOf(id)] = true; }
  bool Decided(BufferId id) { return decided_[classes_.ClassOf(id)]; }
  const Shape& ShapeOf(const BufferUse& use) const { return use.region.size; }

  absl::Status DecideByOp(const Task& task, const program::Op& op);
  ConvolutionVote VoteOf(const Task& task, const program::Op& op, const program::Window& window, int64_t groups);
  std::vector<ConvolutionVote> ConvolutionVotes();
  View ImageView(const BufferUse& use);
  void DecideConv(const program::Window& window, int64_t groups, const WeightsUse& use);
  void DecideFullyConnected(const WeightsUse& use);
  absl::Status SizeArgmax(const program::Window& window, const BufferUse& argmax, const View& x, const View& y);
  bool HasOwnKernel(const program::Window& window, int64_t groups, const WeightsUse& use) const;
  View ViewOfRoot(const Buffer& buffer);

  const Program& program_;
  const CpuOptions::Kernels kernels_;
  const dnnl::engine& engine_;
  LayoutClasses classes_;
  std::vector<OpaqueDesc> desc_;  // by class
  std::vector<char> decided_;     // by class
  std::vector<char> parameter_;   // by class: not an activation
  std::vector<char> in_rows_;     // by class
  std::vector<int64_t> argmax_bytes_;
};

absl::Status Chooser::TakeKnown(const KnownLayouts& known) {
  const auto take = [&](BufferId id, const OpaqueDesc& desc) {
    if (!Decided(id)) {
      Decide(id, desc);
      return absl::OkStatus();
    }
    const OpaqueDesc& other = desc_[classes_.ClassOf(id)];
    const bool equal = desc == nullptr || other == nullptr ? desc == other : *desc == *other;
    if (equal) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "persistent tensor ", program_.buffer(id).name, " of device ", program_.buffer(id).device,
        ": another Program on this backend holds it in another layout than a buffer that this one ties to it; load it on a "
        "backend of its own"));
  };
  for (const Buffer& buffer : program_.buffers) {
    if (!engine::IsPersistentTensor(buffer)) continue;
    const std::optional<OpaqueDesc> desc = known(buffer.device, buffer.name);
    if (desc.has_value()) RETURN_IF_ERROR(take(buffer.id, *desc));
  }
  return absl::OkStatus();
}

absl::Status Chooser::NeedRowMajor(BufferId id) {
  Decide(id, nullptr);
  if (desc_[classes_.ClassOf(id)] == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("persistent tensor ", program_.buffer(id).name, " of device ", program_.buffer(id).device,
                   ": another Program on this backend holds it in a layout of oneDNN's choice, this one uses boxes of it, "
                   "which want row-major order; load it on a backend of its own"));
}

absl::Status Chooser::DecideRowMajor() {
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.slots > 1) RETURN_IF_ERROR(NeedRowMajor(buffer.id));  // as the host has it
  }
  for (const Task& task : program_.tasks) {
    const auto* collective = std::get_if<program::Collective>(&task.body);
    const bool cuts = collective != nullptr && program::CutsOperands(collective->kind);
    for (const BufferUse& use : task.uses) {
      const Buffer& buffer = program_.buffer(use.buffer);
      if (std::holds_alternative<program::Bucket>(buffer.storage)) continue;
      if (cuts || use.region != Region::Whole(buffer.shape)) RETURN_IF_ERROR(NeedRowMajor(buffer.id));
    }
  }
  return absl::OkStatus();
}

ConvolutionVote Chooser::VoteOf(const Task& task, const program::Op& op, const program::Window& window, int64_t groups) {
  const auto use = [&](program::Role role) -> const BufferUse& {
    return task.uses[program::OperandOf(op, task.uses.size(), role)];
  };
  const BufferUse &x = use(program::Role::kInput), &y = use(program::Role::kOutput);
  const BufferUse& w = use(program::Role::kWeight);
  const auto count = [](const Shape& shape) { return static_cast<double>(program::ElementCount(shape)); };
  const double products = count(ShapeOf(y)) * count(ShapeOf(w)) / std::max<double>(static_cast<double>(ShapeOf(w)[0]), 1);
  const int x_class = classes_.ClassOf(x.buffer), y_class = classes_.ClassOf(y.buffer);
  // Those that another Program holds as oneDNN wants them are left so.
  const bool weights_in_rows = desc_[classes_.ClassOf(w.buffer)] == nullptr;
  if (IsProduct(window, groups, ShapeOf(x))) return {x_class, x_class, weights_in_rows, products};  // y has one pixel
  const bool by_rows = weights_in_rows && ConvolvesByRows(window, groups, ShapeOf(x), ShapeOf(y));
  return {x_class, y_class, by_rows, products};
}

std::vector<ConvolutionVote> Chooser::ConvolutionVotes() {
  std::vector<ConvolutionVote> votes;
  for (const Task& task : program_.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute == nullptr) continue;
    std::visit(
        [&]<class Op>(const Op& op) {
          if constexpr (program::OpTraits<Op>::kLayout == program::LayoutRule::kConvolution) {
            votes.push_back(VoteOf(task, compute->op, op.window, op.groups));
          }
        },
        compute->op);
  }
  return votes;
}

// A convolution by rows wants x and y in rows, any other one wants them channel-blocked. A class follows the larger part of
// its convolutions' work; a convolution that loses one of its images wants the other one channel-blocked, too.
void Chooser::DecideImages() {
  std::vector<char> can_be_blocked(program_.buffers.size());
  for (const Buffer& buffer : program_.buffers) {
    const int c = classes_.ClassOf(buffer.id);
    if (Natural(buffer.dtype, buffer.shape).kind == View::Kind::kBlocked) can_be_blocked[c] = true;
    in_rows_[c] = true;
  }
  const std::vector<ConvolutionVote> votes = ConvolutionVotes();
  for (bool changed = true; changed;) {
    std::vector<double> for_rows(program_.buffers.size());  // products, less those of the others
    for (const ConvolutionVote& vote : votes) {
      const bool by_rows = vote.faster_by_rows && in_rows_[vote.x] && in_rows_[vote.y];
      const double counted = by_rows ? vote.products : -vote.products;
      for_rows[vote.x] += counted;
      if (vote.y != vote.x) for_rows[vote.y] += counted;
    }
    changed = false;
    for (size_t c = 0; c < in_rows_.size(); ++c) {
      const bool loses = in_rows_[c] && can_be_blocked[c] && for_rows[c] <= 0;
      if (loses) in_rows_[c] = false;
      changed = changed || loses;
    }
  }
}

View Chooser::ImageView(const BufferUse& use) {
  const Shape& shape = ShapeOf(use);
  return in_rows_[classes_.ClassOf(use.buffer)] ? RowMajor(DType::kF32, shape) : Natural(DType::kF32, shape);
}

void Chooser::DecideConv(const program::Window& window, int64_t groups, const WeightsUse& use) {
  MarkParameter(use.w);
  if (Decided(use.w)) return;
  const Buffer& w = program_.buffer(use.w);
  Decide(use.w, HasOwnKernel(window, groups, use)
                    ? nullptr
                    : PreferredConvWeights(window, groups, w.dtype, use.x.shape, w.shape, use.y.shape, engine_));
}

// Whether a convolution runs by a kernel that wants row-major weights.
bool Chooser::HasOwnKernel(const program::Window& window, int64_t groups, const WeightsUse& use) const {
  if (IsProduct(window, groups, use.x.shape)) return InRows(use.x);
  if (ConvolvesByRows(window, groups, use.x.shape, use.y.shape)) return InRows(use.x) && InRows(use.y);
  return kernels_ == CpuOptions::Kernels::kWinograd && LieForWinograd(window, use.x, use.y) &&
         ConvolvesByWinograd(window, groups, use.dtype, use.x.shape, use.y.shape);
}

void Chooser::DecideFullyConnected(const WeightsUse& use) {
  MarkParameter(use.w);
  if (Decided(use.w)) return;
  const Buffer& w = program_.buffer(use.w);
  Decide(use.w, PreferredFullyConnectedWeights(use.x.shape[0], w.dtype, w.shape, engine_));
}

absl::Status Chooser::SizeArgmax(const program::Window& window, const BufferUse& argmax, const View& x, const View& y) {
  const auto bytes = ArgmaxBytes(window, x, y, engine_);
  if (!bytes.ok()) return bytes.status();
  const Buffer& buffer = program_.buffer(argmax.buffer);
  int64_t& known = argmax_bytes_[argmax.buffer.value];
  if (argmax.region != Region::Whole(buffer.shape) || (known >= 0 && known != *bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the argmax that buffer ", argmax.buffer.value,
                                                   " holds is used in boxes or by poolings of different sizes; oneDNN wants "
                                                   "it whole and from the same pooling, use the reference kernels"));
  }
  known = *bytes;
  return absl::OkStatus();
}

absl::Status Chooser::DecideByOp(const Task& task, const program::Op& op) {
  const auto use = [&](program::Role role) -> const BufferUse& {
    return task.uses[program::OperandOf(op, task.uses.size(), role)];
  };
  const auto weights = [&] {
    const BufferUse& x = use(program::Role::kInput);
    return WeightsUse{use(program::Role::kWeight).buffer, program_.buffer(x.buffer).dtype, ImageView(x),
                      ImageView(use(program::Role::kOutput))};
  };
  return std::visit(
      [&]<class Op>(const Op& attributes) {
        constexpr program::LayoutRule rule = program::OpTraits<Op>::kLayout;
        if constexpr (rule == program::LayoutRule::kConvolution) {
          DecideConv(attributes.window, attributes.groups, weights());
        } else if constexpr (rule == program::LayoutRule::kMatrixProduct) {
          DecideFullyConnected(weights());
        } else if constexpr (rule == program::LayoutRule::kArgmax) {
          if (program::OperandOf(op, task.uses.size(), program::Role::kArgmax) < 0) return absl::OkStatus();
          return SizeArgmax(attributes.window, use(program::Role::kArgmax), ImageView(use(program::Role::kInput)),
                            ImageView(use(program::Role::kOutput)));
        } else {
          static_assert(rule == program::LayoutRule::kFree || rule == program::LayoutRule::kAlike);
        }
        return absl::OkStatus();
      },
      op);
}

absl::Status Chooser::DecideByOps() {
  for (const Task& task : program_.tasks) {
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (compute != nullptr) RETURN_IF_ERROR(DecideByOp(task, compute->op));
  }
  return absl::OkStatus();
}

View Chooser::ViewOfRoot(const Buffer& buffer) {
  if (kernels_ == CpuOptions::Kernels::kReference) return RowMajor(buffer.dtype, buffer.shape);
  if (argmax_bytes_[buffer.id.value] >= 0) {
    return OpaqueBytes(buffer.dtype, buffer.shape, argmax_bytes_[buffer.id.value]);
  }
  if (const OpaqueDesc& desc = desc_[classes_.ClassOf(buffer.id)]; desc != nullptr) {
    return Opaque(buffer.dtype, buffer.shape, desc);
  }
  const int c = classes_.ClassOf(buffer.id);
  return parameter_[c] || in_rows_[c] ? RowMajor(buffer.dtype, buffer.shape) : Natural(buffer.dtype, buffer.shape);
}

}  // namespace

absl::StatusOr<Layouts> ChooseLayouts(const Program& program, CpuOptions::Kernels kernels, const KnownLayouts& known,
                                      const dnnl::engine& engine) {
  Chooser chooser(program, kernels, engine);
  if (kernels != CpuOptions::Kernels::kReference) {
    RETURN_IF_ERROR(chooser.TakeKnown(known));
    RETURN_IF_ERROR(chooser.DecideRowMajor());
    chooser.DecideImages();
    RETURN_IF_ERROR(chooser.DecideByOps());
  }
  return chooser.Finish();
}

}  // namespace colonnade::cpu
