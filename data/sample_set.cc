#include "data/sample_set.h"

#include "absl/strings/str_cat.h"
#include "base/with_context.h"
#include "data/image_set.h"

namespace colonnade::data {

absl::Status CheckSamples(const SampleSet* set) {
  if (set == nullptr) return absl::InvalidArgumentError("expected a set of samples, found none");
  if (set->size() < 1) return absl::InvalidArgumentError(absl::StrCat(set->name(), ": expected samples, found none"));
  const std::optional<program::Shape> shape = set->image_shape();
  return shape.has_value() ? base::WithContext(CheckImageShape(*shape), set->name()) : absl::OkStatus();
}

}  // namespace colonnade::data
