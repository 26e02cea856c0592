#include "engine/classification.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"

namespace colonnade::engine {
namespace {

template <class T>
absl::Status Fill(Executor& executor, absl::string_view name, absl::Span<const T> values) {
  if (values.empty() && !executor.HasInput(name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(absl::Span<T> input, executor.NextInput<T>(name));
  if (values.size() != input.size()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("input \"%s\": expected %s, found %d", name, base::Counted(input.size(), "value"), values.size()));
  }
  std::copy(values.begin(), values.end(), input.begin());
  return absl::OkStatus();
}

template <class T>
absl::StatusOr<ScoredStep> RunStepOn(Executor& executor, absl::Span<const T> images, absl::Span<const int32_t> labels,
                                     const StepInputs& inputs) {
  if (executor.in_flight() != 0)
    return absl::FailedPreconditionError("RunStep: expected no step in flight; collect what was enqueued first");
  RETURN_IF_ERROR(Fill(executor, kImages, images));
  RETURN_IF_ERROR(Fill(executor, kLabels, labels));
  RETURN_IF_ERROR(executor.Enqueue(inputs));
  return CollectScored(executor);
}

}  // namespace

Scores LatestScores(const Executor& executor) {
  const program::Program& program = executor.program();
  Scores scores;
  double loss_sum = 0;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    if (program.outputs[o].kind != program::Output::Kind::kMetrics) continue;
    const absl::Span<const double> sums = executor.LatestSums(o);
    loss_sum += sums[program::Metric::kLossSum];
    scores.top1_hits = std::llround(sums[program::Metric::kTop1Hits]);
    scores.top5_hits = std::llround(sums[program::Metric::kTop5Hits]);
    scores.labels = std::llround(sums[program::Metric::kLabelCount]);
  }
  scores.loss = loss_sum / static_cast<double>(std::max<int64_t>(scores.labels, 1));
  return scores;
}

absl::StatusOr<ScoredStep> CollectScored(Executor& executor) {
  ASSIGN_OR_RETURN(StepResult result, executor.Collect());
  return ScoredStep{std::move(result), LatestScores(executor)};
}

absl::StatusOr<ScoredStep> RunStep(Executor& executor, absl::Span<const float> images, absl::Span<const int32_t> labels,
                                   const StepInputs& inputs) {
  return RunStepOn(executor, images, labels, inputs);
}

absl::StatusOr<ScoredStep> RunStepOnPixels(Executor& executor, absl::Span<const uint8_t> pixels,
                                           absl::Span<const int32_t> labels, const StepInputs& inputs) {
  return RunStepOn(executor, pixels, labels, inputs);
}

std::vector<Guess> LikeliestClasses(absl::Span<const double> logits, int64_t count) {
  if (logits.empty()) return {};
  std::vector<Guess> guesses;
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t k = 0; k < logits.size(); ++k) {
    guesses.push_back({static_cast<int64_t>(k), std::exp(logits[k] - largest)});
    sum += guesses.back().probability;
  }
  for (Guess& guess : guesses) guess.probability /= sum;
  const auto is_likelier = [](const Guess& a, const Guess& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.label < b.label;
  };
  const auto end = guesses.begin() + std::clamp<int64_t>(count, 0, static_cast<int64_t>(guesses.size()));
  std::partial_sort(guesses.begin(), end, guesses.end(), is_likelier);
  guesses.erase(end, guesses.end());
  return guesses;
}

}  // namespace colonnade::engine
