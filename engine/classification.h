// What an executor of a classifier is given and what is read of its results, by the names that lowering gives them.
#ifndef COLONNADE_ENGINE_CLASSIFICATION_H_
#define COLONNADE_ENGINE_CLASSIFICATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/executor.h"

namespace colonnade::engine {

inline constexpr const char* kImages = program::kHostInputNames[program::HostInput::kImages];
inline constexpr const char* kLabels = program::kHostInputNames[program::HostInput::kLabels];

struct Scores {
  double loss = 0;  // Σ over the losses, each a mean over the labels ≥ 0, weighted in training
  int64_t top1_hits = 0, top5_hits = 0, labels = 0;  // of the last loss
};
struct ScoredStep : StepResult, Scores {};

// Returns the scores of the latest collected step. They are all zero where the Program has no loss; a mean over no labels is
// the sum. REQUIRES: a step has been collected, and none enqueued since.
Scores LatestScores(const Executor& executor);

// Does as Executor::Collect does, and adds the scores.
absl::StatusOr<ScoredStep> CollectScored(Executor& executor);

// Run one step on a whole batch. FailedPrecondition where a step is in flight, or the Program's images and labels are of
// other types or sizes. Images or labels that the Program does not take are given as empty spans.
absl::StatusOr<ScoredStep> RunStep(Executor& executor, absl::Span<const float> images, absl::Span<const int32_t> labels,
                                   const StepInputs& inputs);
absl::StatusOr<ScoredStep> RunStepOnPixels(Executor& executor, absl::Span<const uint8_t> pixels,
                                           absl::Span<const int32_t> labels, const StepInputs& inputs);

// A class, and how likely it is to be a sample's.
struct Guess {
  int64_t label = 0;
  double probability = 0;
};

// Returns the `count` likeliest classes (all, where there are fewer) of one sample, the likeliest first, of equally likely
// ones the lowest label first:
//
//   probability[k] = exp(logits[k] − m) / Σ_j exp(logits[j] − m),   m = the largest logit, so that nothing overflows
//
// REQUIRES: logits are finite.
std::vector<Guess> LikeliestClasses(absl::Span<const double> logits, int64_t count);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CLASSIFICATION_H_
