// Machine profiles by name or file, and the profile of this machine that `calibrate` writes.
#ifndef COLONNADE_CLI_MACHINES_H_
#define COLONNADE_CLI_MACHINES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/flags.h"
#include "data/embedded.h"
#include "engine/machine.h"

namespace colonnade::cli {

// bench/machines/*.json, which are part of the program.
absl::Span<const data::EmbeddedFile> ShippedMachines();

// Where `calibrate` writes the profile of this machine: $XDG_CACHE_HOME or $HOME/.cache, colonnade/machine.json.
std::string LocalMachinePath();

// --machine: a shipped profile, a file, or "local": this machine's, else cpu-2core. What was chosen, and warnings of the
// profile, go to stderr. NotFound, or what is wrong in the file with its name before it.
absl::StatusOr<engine::Machine> OpenMachine(const Flags& flags);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_MACHINES_H_
