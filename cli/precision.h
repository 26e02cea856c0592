// --dtype=auto: the element type that a training run computes in, where it was left to us.
#ifndef COLONNADE_CLI_PRECISION_H_
#define COLONNADE_CLI_PRECISION_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "cli/session.h"

namespace colonnade::cli {

// --dtype; of auto, fp32 or bf16: bf16 if a few steps of the session take less time in it here, measured in turn, and says
// which it took. FailedPrecondition where bf16 is not to be had or where a run goes on, which has its type already.
absl::StatusOr<std::string> ChosenDtype(const Flags& flags, const Session& session);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_PRECISION_H_
