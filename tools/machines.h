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

// The kernels that a step runs, or whose rates a profile states; by default the usual ones.
struct KernelChoice {
  std::string kernels = "onednn";  // of CPU devices, a name of --kernels
  std::string precision = "fp32";  // a name of --dtype

  bool operator==(const KernelChoice&) const = default;
};

// Those that `calibrate` can time on CPU devices; the usual ones first.
std::vector<KernelChoice> TimedKernelChoices();

// Where `calibrate` writes the profile of this machine with such kernels: $XDG_CACHE_HOME or $HOME/.cache,
// colonnade/machine.json of the usual ones, else with what differs in its name, as machine-winograd-bf16.json.
std::string LocalMachinePath(const KernelChoice& choice = {});

// The command that writes it; of kernels that `calibrate` does not time, the one for the usual ones.
std::string CalibrationOf(const KernelChoice& choice);

// Opens a profile for steps of such kernels: `name` is a shipped one, a file, or "local": this machine's with those kernels,
// else with the usual ones, else cpu-2core. What was chosen for "local", and warnings, also of other kernels that were
// timed, are appended to `notes`, if that is not null. NotFound where there is no such file, FailedPrecondition where no
// profile has the name, or what is wrong in the file with its name before it.
absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes = nullptr,
                                            const KernelChoice& choice = {});

// What is wrong with predicting steps of such kernels by the rates of others; empty where nothing is, or where the profile
// does not say which it has.
std::string KernelWarning(const engine::Machine& machine, const KernelChoice& choice);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MACHINES_H_
