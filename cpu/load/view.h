// How the logical elements of a buffer, or of a box of it, lie in memory.
//
// Three kinds: affine (any strides; row-major and flat ranges are cases of it), channel-blocked (oneDNN's nChw16c, of whole
// buffers or of any box of one), and opaque (a layout of oneDNN's choice, or bytes of its own; always whole). Views hold no
// pointer: offsets count elements from the base of the root buffer. Which buffer has which layout is decided in layout.h.
// Plain values.
#ifndef COLONNADE_CPU_VIEW_H_
#define COLONNADE_CPU_VIEW_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "cpu/channel_block.h"
#include "cpu/onednn.h"
#include "program/types.h"

namespace colonnade::cpu {

struct View {
  enum class Kind { kAffine, kBlocked, kOpaque };
  Kind kind = Kind::kAffine;
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  // Affine: of each dimension. Blocked: of n, block of channels, h, w; channels of a block are neighbours.
  program::Shape strides;
  int64_t offset = 0;  // affine: of element 0; blocked: of lane 0 of the block that holds channel 0
  int64_t phase = 0;   // blocked: channel c is lane (c + phase) % 16 of block (c + phase) / 16

  // Opaque only: what oneDNN calls the layout (null: bytes that one kernel family alone understands), and its size.
  std::shared_ptr<const MemoryDesc> desc;
  int64_t opaque_elements = 0;
};

View RowMajor(program::DType dtype, const program::Shape& shape);
View ChannelBlocked(program::DType dtype, const program::Shape& shape);  // REQUIRES: rank 4, channels a multiple of 16
View Opaque(program::DType dtype, const program::Shape& shape, std::shared_ptr<const MemoryDesc> desc);
View OpaqueBytes(program::DType dtype, const program::Shape& shape, int64_t bytes);

// Returns the layout that oneDNN wants of activations: channel-blocked for images of f32 or bf16 whose channels are a
// multiple of 16, else row-major.
View Natural(program::DType dtype, const program::Shape& shape);

// Returns the box `region` of `view`. REQUIRES: inside the view; all of it if the view is opaque.
View Slice(const View& view, const program::Region& region);

// True if the elements fill one range of memory in the order in which RowMajor, ChannelBlocked or Opaque would put them.
bool IsDense(const View& view);
// Whether it is dense and row-major.
bool InRows(const View& view);

// Returns the memory of a dense view as one dimension; two views of equal layout match element by element.
View Flat(const View& view);

// Returns an affine view of the same elements, in the same row-major order, under another shape; nothing if strides do not
// allow it.
std::optional<View> Reshape(const View& view, const program::Shape& shape);

// Elements of memory that a dense view takes.
int64_t MemoryElements(const View& view);

// Returns where one element lies. REQUIRES: not opaque.
int64_t OffsetOf(const View& view, const program::Shape& index);

// True if both views put equal indices at equal distances from element 0.
bool SameLayout(const View& a, const View& b);

// Returns what oneDNN calls the layout of a dense view.
MemoryDesc DescOf(const View& view);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_VIEW_H_
