// Where the buffers of a Program lie, counted from the memory of their roots, once a backend has chosen how each lies.
//
// A backend has a View of its own, which says how the logical elements of a tensor lie in memory; all that follows from the
// views is the same for every backend and is computed here: the layouts of buckets, the views of boxes, and the bytes of
// each root. Plain values.
#ifndef COLONNADE_ENGINE_LAYOUTS_H_
#define COLONNADE_ENGINE_LAYOUTS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "program/program.h"

namespace colonnade::engine {

// Returns whether Programs match a buffer by name: it is a persistent root, or a member of a persistent bucket.
bool IsPersistentTensor(const program::Buffer& buffer);

// Where the members of a bucket lie, counted over all of its parts, of which a device may hold some.
struct BucketLayout {
  int64_t alignment = 1, units = 0;  // of all parts: so many times alignment bytes
  int64_t parts = 1;
  std::vector<int64_t> member_begin, member_bytes;  // by member
  // Returns where part `part` begins. Those that have a unit more than others come first.
  int64_t part_begin(int64_t part) const { return (units / parts * part + std::min(part, units % parts)) * alignment; }
  // Return where what the device holds begins, and how many bytes that is.
  int64_t held_begin(const program::Bucket& bucket) const { return part_begin(bucket.first_part); }
  int64_t held_bytes(const program::Bucket& bucket) const {
    return part_begin(bucket.first_part + bucket.held_parts) - held_begin(bucket);
  }
};

// Lays out the members one after the other; each of them, and each part, begins at a multiple of `alignment` bytes. No part
// is empty.
BucketLayout LayOutBucket(const program::Bucket& bucket, std::vector<int64_t> member_bytes, int64_t alignment);

// A range of the memory of a bucket: `begin` counts from the first byte that the device holds.
struct ByteRange {
  program::BufferId bucket;
  int64_t begin = 0, bytes = 0;
};
// Returns the padding behind the members of buckets that `task` writes. A step bucket shares memory with other buffers, so
// that its padding must be cleared in each step: by the tasks that write the member before it. `buckets`: by buffer.
std::vector<ByteRange> PaddingBehind(const program::Program& program, const std::vector<BucketLayout>& buckets,
                                     const program::Task& task);

// Elements [begin, end) of what a use of a bucket touches: all of `member` that is there, and the padding behind it.
struct MemberRange {
  int member = 0;
  int64_t begin = 0, end = 0;
};
// Returns all that `use` touches, in order; of a tensor that is no bucket, one range of all of its elements.
std::vector<MemberRange> MembersOf(const program::Program& program, const std::vector<BucketLayout>& buckets,
                                   const program::BufferUse& use);

// Elements [begin, end) that an update treats alike: those of `member`, or of it and the members behind it whose factors are
// the same.
struct UpdateRange {
  int member = 0;
  int64_t begin = 0, end = 0;
  float rate = 1, weight_decay = 0;  // of the op's learning rate; added to the gradient, or taken off the weight
};
// Returns the ranges of `members` by the factors of an update. Where each member has a trust ratio of its own
// (`by_member`), none is joined to another.
std::vector<UpdateRange> UpdateRangesOf(const std::vector<MemberRange>& members, const program::Factors& rates,
                                        const program::Factors& decays, double weight_decay, bool by_member);

// Bytes [begin, end) of a tensor's `bytes`, which the device holds: a member may begin before or end behind the held parts
// of its bucket. `first_byte` is where the tensor begins, counted from its root's memory of `root_bytes`.
struct HeldBytes {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
HeldBytes HeldBytesOf(int64_t first_byte, int64_t bytes, int64_t root_bytes);

// View needs: `dtype`; `offset`, in elements; and Slice(view, region), which gives the view of a box.
template <class View>
struct Layouts {
  // For each buffer; offsets count from the base of the root (of a bucket: its first held part, so that members of a bucket
  // of which this device holds a part may have negative offsets). A bucket's own view is one dimension: its held elements.
  std::vector<View> views;
  std::vector<int64_t> root_bytes;    // by buffer; 0 for members
  std::vector<BucketLayout> buckets;  // by buffer; empty for all but buckets

  // Returns what a use touches.
  View ViewOf(const program::Program& program, const program::BufferUse& use) const;
};

// Returns a view of vector `bias` [K] that repeats it over all of `shape`, [n, K, …].
template <class View>
View RepeatOverImages(const View& bias, const program::Shape& shape) {
  View repeated = bias;
  repeated.shape = shape;
  repeated.strides.assign(shape.size(), 0);
  repeated.strides[1] = bias.strides[0];
  return repeated;
}

// How a root or a member lies in memory of its own.
template <class View>
struct TensorLayout {
  View view;  // from offset 0
  int64_t bytes = 0;
};

// Lays out `program`. `layout_of(buffer)` gives the TensorLayout of each root and each member, `row_major(dtype, shape)` the
// view of a bucket's elements. Members and parts of buckets begin at multiples of `alignment` bytes.
template <class View, class LayoutOf, class RowMajor>
Layouts<View> LayOut(const program::Program& program, int64_t alignment, const LayoutOf& layout_of,
                     const RowMajor& row_major) {
  const size_t count = program.buffers.size();
  Layouts<View> layouts{std::vector<View>(count), std::vector<int64_t>(count, 0), std::vector<BucketLayout>(count)};
  const auto lay_out_bucket = [&](const program::Buffer& buffer, const program::Bucket& bucket) {
    std::vector<int64_t> member_bytes;
    for (program::BufferId id : bucket.members) {
      TensorLayout<View> member = layout_of(program.buffer(id));
      layouts.views[id.value] = std::move(member.view);
      member_bytes.push_back(member.bytes);
    }
    const BucketLayout& layout = layouts.buckets[buffer.id.value] = LayOutBucket(bucket, std::move(member_bytes), alignment);
    const int64_t size = program::SizeInBytes(buffer.dtype);
    for (size_t i = 0; i < bucket.members.size(); ++i) {
      layouts.views[bucket.members[i].value].offset = (layout.member_begin[i] - layout.held_begin(bucket)) / size;
    }
    layouts.root_bytes[buffer.id.value] = layout.held_bytes(bucket);
    layouts.views[buffer.id.value] = row_major(buffer.dtype, program::Shape{layout.held_bytes(bucket) / size});
  };
  for (const program::Buffer& buffer : program.buffers) {
    if (std::holds_alternative<program::Root>(buffer.storage)) {
      TensorLayout<View> root = layout_of(buffer);
      layouts.views[buffer.id.value] = std::move(root.view);
      layouts.root_bytes[buffer.id.value] = root.bytes;
    } else if (const auto* bucket = std::get_if<program::Bucket>(&buffer.storage)) {
      lay_out_bucket(buffer, *bucket);
    }
  }
  return layouts;
}

template <class View>
View Layouts<View>::ViewOf(const program::Program& program, const program::BufferUse& use) const {
  const View& view = views[use.buffer.value];
  const auto* bucket = std::get_if<program::Bucket>(&program.buffer(use.buffer).storage);
  if (bucket == nullptr) return Slice(view, use.region);
  const BucketLayout& layout = buckets[use.buffer.value];
  const int64_t size = program::SizeInBytes(view.dtype), first = use.region.offset[0];
  const int64_t begin = layout.part_begin(first), end = layout.part_begin(first + use.region.size[0]);
  return Slice(view, {{(begin - layout.held_begin(*bucket)) / size}, {(end - begin) / size}});
}

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_LAYOUTS_H_
