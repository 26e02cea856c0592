// The physical layout of each buffer of a Program: a pure function of the Program and of what is loaded already.
//
//   activations   f32 images whose channels are a multiple of 16 are channel-blocked, all else is row-major
//   weights       as the forward kernel prefers them; a weight's gradient and momentum, and what they meet in updates and
//                 in transfers on other devices, have the same layout
//   argmax        bytes of the pooling kernels
//   buckets       members in their own layouts, each from a multiple of 64 bytes, in `parts` ranges of a multiple of 64
//   bytes
// The reference kernels take row-major operands only. To be called where primitives are made.
#ifndef COLONNADE_CPU_LAYOUT_H_
#define COLONNADE_CPU_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/load/view.h"
#include "program/program.h"

namespace colonnade::cpu {

// A layout that oneDNN chose; null is any other.
using OpaqueDesc = std::shared_ptr<const MemoryDesc>;

// Where the members of a bucket lie in its image, the memory of all of its parts.
struct BucketImage {
  int64_t part_bytes = 0;
  std::vector<int64_t> member_begin;  // by member, bytes
  std::vector<int64_t> member_bytes;
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

// The opaque layout of each tensor of a persistent root (one) or bucket (one per member) that was loaded before; an empty
// function, or an empty result for what was not.
using KnownLayouts = std::function<std::vector<OpaqueDesc>(int device, const std::string& name)>;

absl::StatusOr<Layouts> ChooseLayouts(const program::Program& program, bool reference_kernels, const KnownLayouts& known,
                                      const dnnl::engine& engine);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_LAYOUT_H_
