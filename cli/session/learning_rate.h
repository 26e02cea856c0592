// --lr, --lr-policy, --warm-up and --base-batch.
#ifndef COLONNADE_CLI_SESSION_LEARNING_RATE_H_
#define COLONNADE_CLI_SESSION_LEARNING_RATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/session/session.h"
#include "engine/learning_rate.h"

namespace colonnade::cli {

// Returns the policy of a run of `steps` steps. FailedPrecondition where the words of --lr-policy are not understood.
absl::StatusOr<engine::LearningRatePolicy> LearningRateOf(const SessionFlags& flags, const Session& session, int64_t steps);
// Returns FailedPrecondition where --warm-up does not fit the run.
absl::Status CheckWarmUp(const engine::LearningRatePolicy& policy);

// Returns a note where each step of --lr-policy makes the rate larger; else "".
std::string GrowthNote(const engine::LearningRatePolicy& policy);

// Returns the shortest digits that are read as the same number.
std::string Digits(double value);

// "cosine over 1200 steps, warm-up of 100", with what decides the rate of every step but the base.
std::string Describe(const engine::LearningRatePolicy& policy);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_LEARNING_RATE_H_
