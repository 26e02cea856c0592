#include "engine/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace colonnade::engine {
namespace {

// Where the hierarchies lie that have these controllers: none of those that lack `controller`. Version 2 names no
// controllers.
std::vector<std::string> HierarchiesOf(absl::string_view controllers, absl::string_view controller,
                                       const std::string& root) {
  if (controllers.empty()) return {root};
  const std::vector<absl::string_view> names = absl::StrSplit(controllers, ',');
  if (std::find(names.begin(), names.end(), controller) == names.end()) return {};
  const std::string by_all = absl::StrCat(root, "/", controllers), by_one = absl::StrCat(root, "/", controller);
  return names.size() == 1 ? std::vector{by_one} : std::vector{by_all, by_one};
}

void AddWithThoseAbove(const std::string& hierarchy, absl::string_view group, std::vector<std::string>& folders) {
  if (group == "/") group = "";
  for (;; group = group.substr(0, group.rfind('/'))) {
    folders.push_back(absl::StrCat(hierarchy, group));
    if (group.empty()) return;
  }
}

}  // namespace

std::vector<std::string> ControlGroupFolders(absl::string_view controller, const std::string& groups,
                                             const std::string& root) {
  std::vector<std::string> folders;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));  // id:controllers:group
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    for (const std::string& hierarchy : HierarchiesOf(fields[1], controller, root)) {
      AddWithThoseAbove(hierarchy, fields[2], folders);
    }
  }
  return folders;
}

}  // namespace colonnade::engine
