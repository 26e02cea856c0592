// Weights that a run has left, on devices that evaluate them.
#ifndef COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_
#define COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/command_line/flags.h"
#include "cli/session/session.h"
#include "engine/executor.h"
#include "engine/io/weights.h"
#include "program/program.h"

namespace colonnade::cli {

// Opens the weights of --init, which `init` is. Where that is a checkpoint, or a folder of them, the error says which file
// has its weights.
absl::StatusOr<engine::MappedWeights> OpenWeights(const std::string& init);

// Writes the weights of --init to all layers but the new ones; an error names that file and says what may help.
absl::Status TakeWeights(const SessionFlags& flags, absl::Span<const engine::TensorView> weights,
                         engine::LoadedProgram& loaded, const std::set<std::string>& new_layers = {});

// Returns an executor of `program`, which must outlive it, on the devices that --backend names, with the weights of --init;
// prints the first lines of the command. Errors: ResourceExhausted where the memory does not suffice, else those of
// OpenBackend and TakeWeights.
absl::StatusOr<std::unique_ptr<engine::Executor>> LoadTrained(const SessionFlags& flags, const Session& session,
                                                              const program::Program& program,
                                                              const engine::MappedWeights& weights);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_
