// The flags of the optimiser: how parameters are updated.
#ifndef COLONNADE_CLI_SESSION_OPTIMIZER_H_
#define COLONNADE_CLI_SESSION_OPTIMIZER_H_

#include <string>

#include "cli/session/session.h"
#include "engine/checkpoint.h"
#include "partition/lower.h"

namespace colonnade::cli {

// Refuses flags of another optimiser, and what --freeze cannot mean: a pattern of no layer with parameters, patterns of all,
// or of a head that is replaced.
absl::Status CheckUpdate(const SessionFlags& flags, const layers::LayerGraph& graph);
// Where a flag is not given, the model's recipe for SGD and, but for the rate, LARS; PyTorch's defaults for AdamW.
partition::UpdateOptions UpdateOptionsOf(const OptimizerFlags& flags, const Session& session);
double DefaultLearningRate(const OptimizerFlags& flags, const Session& session);

// "SGD in krizhevsky's form".
std::string NameOf(const partition::UpdateOptions& update);
// "momentum 0.9, weight decay 0.0005, clipped to norm 1".
std::string Describe(const partition::UpdateOptions& update);
// Returns the fields of a run (engine::RunFields) that say how its parameters are updated.
engine::RunFields UpdateFieldsOf(const OptimizerFlags& flags, const partition::UpdateOptions& update);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_OPTIMIZER_H_
