// Counts in messages, with the noun as it is of one or of several.
#ifndef COLONNADE_BASE_COUNTED_H_
#define COLONNADE_BASE_COUNTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::base {

// Returns "0 images", "1 image", "2 images". `noun` is that of one, and its plural is regular: "classes", "batches",
// "entries", but "epochs".
std::string Counted(int64_t count, absl::string_view noun);

// The same with the verb, as it is of one and of several: "1 file is", "2 files are".
std::string Counted(int64_t count, absl::string_view noun, absl::string_view of_one, absl::string_view of_several);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_COUNTED_H_
