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

inline constexpr char kUsualPrecision[] = "fp32";

// Where `calibrate` writes the profile of this machine in a precision: $XDG_CACHE_HOME or $HOME/.cache,
// colonnade/machine.json of fp32, machine-bf16.json of bf16.
std::string LocalMachinePath(const std::string& precision = kUsualPrecision);

// The command that writes it.
std::string CalibrationOf(const std::string& precision);

// Opens a profile for steps in `precision`: `name` is a shipped one, a file, or "local": this machine's in that precision,
// else in fp32, else cpu-2core. What was chosen for "local", and warnings, also of kernels that were timed in another
// precision, are appended to `notes`, if that is not null. NotFound where there is no such file, FailedPrecondition where no
// profile has the name, or what is wrong in the file with its name before it.
absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes = nullptr,
                                            const std::string& precision = kUsualPrecision);

// What is wrong with predicting steps in `precision` by the rates of kernels in another one; empty where nothing is, or
// where the profile does not say.
std::string PrecisionWarning(const engine::Machine& machine, const std::string& precision);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MACHINES_H_
