// Files of one folder that are a training set or a test set by their names.
#ifndef COLONNADE_DATA_SPLIT_FILES_H_
#define COLONNADE_DATA_SPLIT_FILES_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

// Returns the paths of files in `folder` whose names are taken, sorted; none where it cannot be read.
std::vector<std::string> FilesIn(const std::string& folder, absl::FunctionRef<bool(absl::string_view name)> takes);

// Returns the last name of a path.
std::string NameIn(const std::string& path);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SPLIT_FILES_H_
