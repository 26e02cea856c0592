// Machine profiles by name or file, and the profile of this machine that `calibrate` writes.
#ifndef COLONNADE_TOOLS_MACHINES_H_
#define COLONNADE_TOOLS_MACHINES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/embedded.h"
#include "engine/machine.h"

namespace colonnade::tools {

// bench/machines/*.json, which are part of the program.
absl::Span<const data::EmbeddedFile> ShippedMachines();

// Where `calibrate` writes the profile of this machine: $XDG_CACHE_HOME or $HOME/.cache, colonnade/machine.json.
std::string LocalMachinePath();

// Opens a profile: `name` is a shipped one, a file, or "local": this machine's, else cpu-2core. What was chosen for "local",
// and warnings of the profile, are appended to `notes`, if that is not null. NotFound where there is no such file,
// FailedPrecondition where no profile has the name, or what is wrong in the file with its name before it.
absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes = nullptr);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MACHINES_H_
