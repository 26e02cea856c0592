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

// Returns bench/machines/*.json, which are part of the program.
absl::Span<const data::EmbeddedFile> ShippedMachines();

// The kernels that a step runs, or whose rates a profile states; by default the usual ones.
struct KernelChoice {
  std::string kernels = "onednn";  // of CPU devices, a name of --kernels
  std::string precision = "fp32";  // a name of --dtype

  bool operator==(const KernelChoice&) const = default;
};

// Returns the kernels that `calibrate` can time on CPU devices, the usual ones first.
std::vector<KernelChoice> TimedKernelChoices();

// Returns where `calibrate` writes the profile of this machine with such kernels: in $XDG_CACHE_HOME or $HOME/.cache,
// colonnade/machine.json for the usual ones, else a name with what differs, as machine-winograd-bf16.json. Empty where
// neither variable is set.
std::string LocalMachinePath(const KernelChoice& choice = {});

// Returns the command that writes that profile; for kernels that `calibrate` does not time, the command for the usual ones.
std::string CalibrationOf(const KernelChoice& choice);

// Returns the profile in a file, whose name may be that of a shipped one.
absl::StatusOr<engine::Machine> ReadMachineFile(const std::string& path);

// Opens a profile for steps of such kernels: `name` is a shipped one, a file, or "local", which is this machine's with those
// kernels, else with the usual ones, else cpu-2core. Appends to `notes`, if that is not null, what was chosen for "local",
// and warnings, also where the profile is of other kernels. NotFound where there is no such file, FailedPrecondition where
// no profile has the name. An error in the contents of a profile begins with its name.
absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes = nullptr,
                                            const KernelChoice& choice = {});

// Returns a warning where `machine` states rates of other kernels than `choice`; empty where it does not, or does not say of
// which kernels its rates are.
std::string KernelWarning(const engine::Machine& machine, const KernelChoice& choice);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MACHINES_H_
