// The devices that --backend asks for, and the profile that --machine names.
#ifndef COLONNADE_CLI_SESSION_DEVICES_H_
#define COLONNADE_CLI_SESSION_DEVICES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line/flags.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "nlohmann/json.hpp"
#include "tools/gpus.h"
#include "tools/machines.h"

namespace colonnade::cli {

// Opens the backend that --backend names. Unavailable for cuda where there is none. A CPU device always times its tasks, a
// GPU with `times_tasks`.
absl::StatusOr<std::unique_ptr<engine::Backend>> OpenBackend(const BackendFlags& flags, int devices, int threads_per_device,
                                                             bool times_tasks = false);
// Returns OK if OpenBackend would find what --backend and --dtype ask for, else why it would not.
absl::Status CheckBackend(const BackendFlags& flags);
// Returns the GPUs that --backend=cuda finds, at least one; else Unavailable.
absl::StatusOr<tools::Gpus> FindGpus();
// Returns how the kernels of CPU devices multiply with --dtype=bf16, as ", bf16 (AMX)"; empty with any other --dtype.
std::string ProductsOnCpu(const BackendFlags& flags);

// Returns the kernels that --kernels and --dtype choose; fp32 for a --dtype of auto.
tools::KernelChoice KernelsOf(const BackendFlags& flags);
// Opens the profile that --machine names, for steps of those kernels. Notes about it go to stderr.
absl::StatusOr<engine::Machine> OpenMachine(const ProfileFlags& flags, const BackendFlags& backend);
// Returns --kernels for a profile of CPU devices; null for other devices, which have kernels of their own.
nlohmann::ordered_json KernelsJson(const BackendFlags& flags, const engine::Machine& machine);
// Returns the file that the profile was read from; null where its name says which it is.
nlohmann::ordered_json MachineFileJson(const engine::Machine& machine);
// Warns on stderr where the profile was fitted to another network.
void WarnOfFit(const engine::Machine& machine, const layers::LayerGraph& graph);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_DEVICES_H_
