#include "cuda/layout.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cuda/vector.h"
#include "program/bfloat16.h"

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

// Buffers of bf16 images that the host fills, whose channels are no whole vectors.
std::vector<bool> FindPadded(const Program& program) {
  std::vector<bool> is_padded(program.buffers.size(), false);
  for (const program::Input& input : program.inputs) {
    for (const program::Piece& piece : input.pieces) {
      const Buffer& buffer = program.buffer(piece.buffer);
      is_padded[buffer.id.value] = std::holds_alternative<program::Root>(buffer.storage) &&
                                   buffer.dtype == program::DType::kBF16 && buffer.shape.size() == 4 &&
                                   buffer.shape[1] % kLanesOf<program::BFloat16> != 0;
    }
  }
  return is_padded;
}

}  // namespace

Layouts ChooseLayouts(const Program& program) {
  const size_t count = program.buffers.size();
  Layouts layouts;
  layouts.views.resize(count);
  layouts.root_bytes.assign(count, 0);
  layouts.buckets.resize(count);
  const std::vector<bool> is_padded = FindPadded(program);
  for (const Buffer& buffer : program.buffers) {
    if (std::holds_alternative<program::Root>(buffer.storage)) {
      const int64_t channels = buffer.shape.size() == 4 ? buffer.shape[1] : 1;
      const int64_t room = is_padded[buffer.id.value] ? RoundUp(channels, kLanesOf<program::BFloat16>) : channels;
      layouts.root_bytes[buffer.id.value] = BytesOf(buffer) / channels * room;
      layouts.views[buffer.id.value] =
          room > channels ? PaddedImage(buffer.dtype, buffer.shape, room) : Natural(buffer.dtype, buffer.shape);
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
