#include "cuda/kernels/walk.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace colonnade::cuda {

absl::StatusOr<Walk> WalkOver(absl::Span<const View> views) {
  const View& first = views[0];
  const int rank = static_cast<int>(first.shape.size());
  if (views.size() > kMostOperands) {
    return absl::UnimplementedError(absl::StrCat(views.size(), " operands of one kernel; at most ", kMostOperands));
  }
  if (rank > 4) return absl::UnimplementedError(absl::StrCat(rank, " dimensions; at most 4"));
  for (const View& view : views) {
    if (view.folded.has_value()) return absl::UnimplementedError("a walk over a folded image");
    if (view.shape != first.shape) {
      return absl::InvalidArgumentError(absl::StrCat("operands of shapes ", program::ToString(first.shape), " and ",
                                                     program::ToString(view.shape), "; they must be equal"));
    }
  }
  // Innermost first, by the strides of the first operand.
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return first.strides[a] != first.strides[b] ? first.strides[a] < first.strides[b] : a > b;
  });
  Walk walk;
  walk.count = program::ElementCount(first.shape);
  walk.rank = 0;
  for (size_t v = 0; v < views.size(); ++v) walk.offset[v] = views[v].offset;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    if (first.shape[d] == 1) continue;
    const int previous = walk.rank - 1;
    bool joins = previous >= 0;
    for (size_t v = 0; v < views.size() && joins; ++v) {
      joins = views[v].strides[d] == walk.stride[v][previous] * walk.extent[previous];
    }
    if (joins) {
      walk.extent[previous] *= first.shape[d];
      continue;
    }
    walk.extent[walk.rank] = first.shape[d];
    for (size_t v = 0; v < views.size(); ++v) walk.stride[v][walk.rank] = views[v].strides[d];
    ++walk.rank;
  }
  walk.rank = std::max(walk.rank, 1);
  return walk;
}

}  // namespace colonnade::cuda
