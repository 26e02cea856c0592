// Internal to data/. The names of the folders and of the shards of a split.
#ifndef COLONNADE_DATA_SPLIT_NAMES_H_
#define COLONNADE_DATA_SPLIT_NAMES_H_

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

inline constexpr absl::string_view kTrainName = "train";

// Returns the name of the test images among those that are there; "" where there is none: "val" before "valid", "validation"
// and "test". "valid" and "validation" may be classes, so they count beside "train" alone.
inline absl::string_view TestNameAmong(absl::FunctionRef<bool(absl::string_view)> is_there) {
  if (is_there("val")) return "val";
  if (is_there(kTrainName)) {
    for (absl::string_view name : {"valid", "validation"}) {
      if (is_there(name)) return name;
    }
  }
  return is_there("test") ? "test" : "";
}

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SPLIT_NAMES_H_
