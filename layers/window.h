// Shape rule and op geometry that convolution and pooling share.
#ifndef COLONNADE_LAYERS_WINDOW_H_
#define COLONNADE_LAYERS_WINDOW_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "program/op.h"

namespace colonnade::layers {

// Rows and columns of the output of a window that slides over {C, H, W}, as {C, P, Q}. InvalidArgument if the input is not
// of rank 3, the window's numbers are out of range, or it does not fit.
absl::StatusOr<program::Shape> SlideOver(absl::Span<const program::Shape> inputs, const program::Window& window);

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_WINDOW_H_
