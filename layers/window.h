// Shape rules and op geometry that convolution and pooling share.
#ifndef COLONNADE_LAYERS_WINDOW_H_
#define COLONNADE_LAYERS_WINDOW_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "program/op.h"

namespace colonnade::layers {

// Returns the rows and columns of the output of a window that slides over {C, H, W}, as {C, P, Q}. InvalidArgument if the
// input is not of rank 3, the window's numbers are out of range, or it does not fit.
absl::StatusOr<program::Shape> SlideOver(absl::Span<const program::Shape> inputs, const program::Window& window);

// The window of a pooling layer, whose attributes max_pool.h explains.
struct Pooling {
  int64_t kernel_h, kernel_w;
  int64_t stride;  // 0: as the kernel
  int64_t pad;
  bool ceil_mode;
};

// Does as SlideOver does, for the window of a pooling. InvalidArgument also where its pad is not less than its kernel.
absl::StatusOr<program::Shape> PoolOver(absl::Span<const program::Shape> inputs, const Pooling& pooling);

// Returns the window that slides over images x, whose last extents are rows and columns; with ceil_mode it has as much more
// padding below and on the right as the last windows need. REQUIRES: PoolOver accepts x.
program::Window WindowOver(const Pooling& pooling, const program::Shape& x);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_WINDOW_H_
