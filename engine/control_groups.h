// The control groups that this process is in, of either version. Any thread.
#ifndef COLONNADE_ENGINE_CONTROL_GROUPS_H_
#define COLONNADE_ENGINE_CONTROL_GROUPS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colonnade::engine {

// Returns the folders in which the limits of `controller` ("cpu", "memory") may stand that hold for this process: each of
// its groups before those above it, "/job/step" before "/job" and the root. Some may be missing. `groups` lists the groups,
// as /proc/self/cgroup, and `root` holds them, as /sys/fs/cgroup. A hierarchy of version 1 that has several controllers is
// looked for by all their names ("cpu,cpuacct") and by that of `controller`.
std::vector<std::string> ControlGroupFolders(absl::string_view controller, const std::string& groups,
                                             const std::string& root);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CONTROL_GROUPS_H_
