#include "cuda/load/layout.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "cuda/load/space_to_depth.h"

namespace colonnade::cuda {

using program::Buffer;
using program::BufferId;
using program::Program;

namespace {

int64_t RoundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int64_t BytesOf(const Buffer& buffer) { return program::ElementCount(buffer.shape) * program::SizeInBytes(buffer.dtype); }

void LayOutBucket(const Program& program, const Buffer& buffer, const program::Bucket& bucket, Layouts& layouts) {
  BucketImage& image = layouts.buckets[buffer.id.value];
  int64_t total = 0;
  for (BufferId id : bucket.members) {
    const int64_t bytes = BytesOf(program.buffer(id));
    image.member_begin.push_back(total);
    image.member_bytes.push_back(bytes);
    total += RoundUp(bytes, kAlignment);
  }
  image.part_bytes = RoundUp((total + bucket.parts - 1) / bucket.parts, kAlignment);
  const int64_t size = program::SizeInBytes(buffer.dtype), held_begin = bucket.first_part * image.part_bytes;
  for (size_t i = 0; i < bucket.members.size(); ++i) {
    const Buffer& member = program.buffer(bucket.members[i]);
    View view = Natural(member.dtype, member.shape);
    view.offset = (image.member_begin[i] - held_begin) / size;
    layouts.views[member.id.value] = std::move(view);
  }
  layouts.root_bytes[buffer.id.value] = bucket.held_parts * image.part_bytes;
  layouts.views[buffer.id.value] = RowMajor(buffer.dtype, {bucket.held_parts * image.part_bytes / size});
}

// What is loaded, and read by nothing but convolutions of one kind, folded for them; by buffer.
class ImageFolds {
 public:
  ImageFolds(const Program& program, Precision precision) : program_(program), precision_(precision) {
    folds_.resize(program.buffers.size());
    may_fold_.resize(program.buffers.size(), false);
    for (const program::Input& input : program.inputs) {
      for (const program::Piece& piece : input.pieces) {
        const Buffer& buffer = program.buffer(piece.buffer);
        may_fold_[buffer.id.value] = std::holds_alternative<program::Root>(buffer.storage) && buffer.shape.size() == 4;
      }
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
    if (!may_fold_[root.value] || IsLoad(task)) return;
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

  static bool IsLoad(const program::Task& task) {
    const auto* compute = std::get_if<program::Compute>(&task.what);
    return compute != nullptr && std::holds_alternative<program::Load>(compute->op);
  }
  std::optional<SpaceToDepth> FoldFor(const program::Task& task, const Buffer& x) const {
    const auto* compute = std::get_if<program::Compute>(&task.what);
    if (compute == nullptr) return std::nullopt;
    const auto with = [&](const auto& op, const program::BufferUse& y) {
      return op.groups == 1 ? FoldOfImages(op.window, x.shape, y.region.size, x.dtype, precision_) : std::nullopt;
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
  const size_t count = program.buffers.size();
  Layouts layouts;
  layouts.views.resize(count);
  layouts.root_bytes.assign(count, 0);
  layouts.buckets.resize(count);
  const ImageFolds folds(program, precision);
  for (const Buffer& buffer : program.buffers) {
    if (std::holds_alternative<program::Root>(buffer.storage)) {
      if (const std::optional<SpaceToDepth>& fold = folds.of(buffer.id); fold.has_value()) {
        layouts.root_bytes[buffer.id.value] = buffer.shape[0] * fold->elements() * program::SizeInBytes(buffer.dtype);
        layouts.views[buffer.id.value] = FoldedView(buffer.dtype, buffer.shape, *fold);
        continue;
      }
      layouts.root_bytes[buffer.id.value] = BytesOf(buffer);
      layouts.views[buffer.id.value] = Natural(buffer.dtype, buffer.shape);
    } else if (const auto* bucket = std::get_if<program::Bucket>(&buffer.storage)) {
      LayOutBucket(program, buffer, *bucket, layouts);
    }
  }
  const std::function<const View&(BufferId)> view_of = [&](BufferId id) -> const View& {
    if (const auto* box = std::get_if<program::BoxView>(&program.buffer(id).storage)) {
      layouts.views[id.value] = Slice(view_of(box->parent), box->region);
    }
    return layouts.views[id.value];
  };
  for (const Buffer& buffer : program.buffers) view_of(buffer.id);
  return layouts;
}

View Layouts::ViewOf(const Program& program, const program::BufferUse& use) const {
  const View& view = views[use.buffer.value];
  const auto* bucket = std::get_if<program::Bucket>(&program.buffer(use.buffer).storage);
  if (bucket == nullptr) return Slice(view, use.region);
  const int64_t part = buckets[use.buffer.value].part_bytes / program::SizeInBytes(view.dtype);
  return Slice(view, {{(use.region.offset[0] - bucket->first_part) * part}, {use.region.size[0] * part}});
}

std::vector<ByteRange> PaddingBehind(const Program& program, const Layouts& layouts, const program::Task& task) {
  std::vector<ByteRange> ranges;
  for (const program::BufferUse& use : task.uses) {
    const auto* member = std::get_if<program::BucketMember>(&program.buffer(use.buffer).storage);
    if (member == nullptr || use.access != program::Access::kWrite) continue;
    const auto& bucket = std::get<program::Bucket>(program.buffer(member->bucket).storage);
    const BucketImage& image = layouts.buckets[member->bucket.value];
    const int64_t held_begin = bucket.first_part * image.part_bytes;
    const int64_t held_end = held_begin + bucket.held_parts * image.part_bytes;
    const bool last = member->index + 1 == static_cast<int>(bucket.members.size());
    const int64_t begin = std::max(held_begin, image.member_begin[member->index] + image.member_bytes[member->index]);
    const int64_t end = std::min(held_end, last ? held_end : image.member_begin[member->index + 1]);
    if (begin < end) ranges.push_back({member->bucket, begin - held_begin, end - begin});
  }
  return ranges;
}

}  // namespace colonnade::cuda
