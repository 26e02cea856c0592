#include "data/image_set.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace colonnade::data {

absl::Status CheckImageShape(const program::Shape& shape) {
  if (shape.size() == 3 && absl::c_all_of(shape, [](int64_t extent) { return extent >= 1; })) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected images [C,H,W] with extents of at least 1, found ", program::ToString(shape)));
}

}  // namespace colonnade::data
