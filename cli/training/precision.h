// --dtype=auto: the element type that a training run computes in, where it was left to us.
#ifndef COLONNADE_CLI_TRAINING_PRECISION_H_
#define COLONNADE_CLI_TRAINING_PRECISION_H_

#include "absl/status/status.h"
#include "cli/session/session.h"
#include "cli/training/train_flags.h"

namespace colonnade::cli {

// Makes of --dtype=auto fp32 or bf16, in the flags and in what records hold of them: bf16 if a few steps of the session take
// less time in it here, measured in turn. Says which it took. FailedPrecondition where bf16 is not to be had or where a run
// goes on, which has its type already.
absl::Status ChooseDtype(const Session& session, TrainFlags& flags);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_PRECISION_H_
