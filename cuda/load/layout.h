// The physical layout of each buffer of a Program on a GPU: a pure function of the Program and the precision of
// products.
//
// Images and filters are channels-last, all else row-major (view.h); loaded images that convolutions of one kind
// alone read are folded where that helps them (space_to_depth.h). Members of a bucket lie one after the other, each from
// a multiple of 256 bytes, in `parts` ranges of a multiple of 256 bytes.
#ifndef COLONNADE_CUDA_LAYOUT_H_
#define COLONNADE_CUDA_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "cuda/calls.h"
#include "cuda/load/view.h"
#include "program/program.h"

namespace colonnade::cuda {

inline constexpr int64_t kAlignment = 256;

// Where the members of a bucket lie in its image, the memory of all of its parts.
struct BucketImage {
  int64_t part_bytes = 0;
  std::vector<int64_t> member_begin, member_bytes;  // by member
};

struct Layouts {
  // By buffer; offsets count from the base of the root (of a bucket: its first held part, so that members of a bucket of
  // which this device holds a part may have negative offsets). A bucket's own view is one dimension: its held elements.
  std::vector<View> views;
  std::vector<int64_t> root_bytes;   // by buffer; 0 for views and members
  std::vector<BucketImage> buckets;  // by buffer; empty for all but buckets

  // What a use touches.
  View ViewOf(const program::Program& program, const program::BufferUse& use) const;
};

Layouts ChooseLayouts(const program::Program& program, Precision precision);

// The bytes of a step bucket behind the members that a task writes: they share memory with other buffers and must be
// cleared.
struct ByteRange {
  program::BufferId bucket;
  int64_t begin = 0, bytes = 0;  // from the bucket's base
};
std::vector<ByteRange> PaddingBehind(const program::Program& program, const Layouts& layouts, const program::Task& task);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_LAYOUT_H_
