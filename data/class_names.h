// Classes by number and by name.
#ifndef COLONNADE_DATA_CLASS_NAMES_H_
#define COLONNADE_DATA_CLASS_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

inline constexpr int64_t kMostClasses = 100'000;

// Returns InvalidArgument with expected and found where a label is none of `classes` (0: of kMostClasses).
absl::Status CheckLabel(int64_t label, int64_t classes);

// Returns the names of `asked` classes (0: of as many as `known` names and `labels` need): those known, then numbers, or
// "class 7" where 7 is the name of another.
// InvalidArgument where `known` are more than asked for. REQUIRES: every label has passed CheckLabel.
absl::StatusOr<std::vector<std::string>> NameClasses(std::vector<std::string> known, const std::vector<int32_t>& labels,
                                                     int64_t asked);

// Whether that is what NameClasses calls a class without a name.
bool IsNoName(size_t label, absl::string_view name);

// Returns whether each of `wanted` is one of `names`.
bool HaveAll(const std::vector<std::string>& names, const std::vector<std::string>& wanted);

// Return what is said of classes that a set has no images of, and of files that are left out; "" where there are none.
std::string NoteOfMissing(std::vector<std::string> missing, size_t classes);
std::string NoteOfLeftOut(int64_t files, absl::string_view one_of_them);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_CLASS_NAMES_H_
