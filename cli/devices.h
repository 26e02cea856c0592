// The devices that --backend asks for, and the profile that --machine names.
#ifndef COLONNADE_CLI_DEVICES_H_
#define COLONNADE_CLI_DEVICES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "engine/backend.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "nlohmann/json.hpp"
#include "tools/gpus.h"
#include "tools/machines.h"

namespace colonnade::cli {

// --backend. Unavailable if it is cuda and there is none. With `times_tasks` a GPU times them too; a CPU always does.
absl::StatusOr<std::unique_ptr<engine::Backend>> OpenBackend(const Flags& flags, int devices, int threads_per_device,
                                                             bool times_tasks = false);
// Whether OpenBackend would find what --backend and --dtype ask for.
absl::Status CheckBackend(const Flags& flags);
// The GPUs that --backend=cuda finds, at least one; else Unavailable.
absl::StatusOr<tools::Gpus> FindGpus();
// ", bf16 (AMX)": how the kernels of CPU devices multiply where --dtype is bf16; empty where it is not.
std::string ProductsOnCpu(const Flags& flags);

// Those of --kernels and --dtype; where auto has yet to choose, in fp32.
tools::KernelChoice KernelsOf(const Flags& flags);
// The profile that --machine names, for steps of those kernels. Notes about it go to stderr.
absl::StatusOr<engine::Machine> OpenMachine(const Flags& flags);
// --kernels of a profile of CPU devices; null of others, which have kernels of their own.
nlohmann::ordered_json KernelsJson(const Flags& flags, const engine::Machine& machine);
// What --machine read the profile from; null where its name says which it is.
nlohmann::ordered_json MachineFileJson(const engine::Machine& machine);
// Warns on stderr where the profile was fitted to another network.
void WarnOfFit(const engine::Machine& machine, const layers::LayerGraph& graph);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_DEVICES_H_
