#include "data/split_files.h"

#include <algorithm>
#include <filesystem>

namespace colonnade::data {

std::vector<std::string> FilesIn(const std::string& folder, absl::FunctionRef<bool(absl::string_view name)> takes) {
  std::vector<std::string> paths;
  std::error_code error, none;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (takes(it->path().filename().string()) && !it->is_directory(none)) paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string NameIn(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace colonnade::data
