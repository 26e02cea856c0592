#include "engine/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/counted.h"
#include "base/status_macros.h"

namespace colonnade::engine {
namespace {

using Shape = LearningRatePolicy::Shape;

// From `from` to `to` along half a cosine, at a share of the way.
double AlongCosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

// Steps 0 to `peak` go up, the others down to the last.
double OneCycle(const LearningRatePolicy& policy, int64_t step) {
  constexpr double kShareUp = 0.3, kStart = 25, kEnd = 25e4;
  const auto last = static_cast<double>(policy.steps - 1), t = std::min(static_cast<double>(step), last);
  const double peak = kShareUp * static_cast<double>(policy.steps) - 1;
  if (t <= peak) return AlongCosine(policy.base / kStart, policy.base, peak > 0 ? t / peak : 1);
  return AlongCosine(policy.base, policy.base / kEnd, (t - peak) / (last - peak));
}

// Whole numbers above 0, then one number above 0. REQUIRES: some words.
bool ReadSteps(absl::Span<const std::string> words, std::vector<int64_t>& steps, double& number) {
  for (const std::string& word : words.subspan(0, words.size() - 1)) {
    if (!absl::SimpleAtoi(word, &steps.emplace_back()) || steps.back() < 1) return false;
  }
  return absl::SimpleAtod(words.back(), &number) && number > 0 && std::isfinite(number);
}

// What the words behind the name say; false where that is nothing.
bool ReadArguments(absl::Span<const std::string> words, LearningRatePolicy& policy) {
  std::vector<int64_t> steps;
  switch (policy.shape) {
    case Shape::kConstant:
    case Shape::kCosine:
    case Shape::kOneCycle:
      return words.empty();
    case Shape::kPolynomial:
      return words.size() == 1 && ReadSteps(words, steps, policy.power);
    case Shape::kStep:
      if (words.size() != 2 || !ReadSteps(words, steps, policy.factor)) return false;
      policy.every = steps[0];
      return true;
    case Shape::kMultiStep:
      if (words.size() < 2 || !ReadSteps(words, policy.milestones, policy.factor)) return false;
      return std::is_sorted(policy.milestones.begin(), policy.milestones.end());
  }
  return false;
}

// Devices hold the rate as f32.
absl::Status CheckRateNumbers(const LearningRatePolicy& policy) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(policy.base >= 0 && policy.base <= kMost)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::base from 0 to %g, found %g", kMost, policy.base));
  }
  const bool has_factor = policy.shape == Shape::kStep || policy.shape == Shape::kMultiStep;
  if (has_factor && !(policy.factor > 0 && std::isfinite(policy.factor))) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::factor above 0, found %g", policy.factor));
  }
  if (policy.shape == Shape::kPolynomial && !(policy.power > 0 && std::isfinite(policy.power))) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::power above 0, found %g", policy.power));
  }
  return absl::OkStatus();
}

constexpr std::pair<absl::string_view, Shape> kShapes[] = {{"constant", Shape::kConstant},   {"step", Shape::kStep},
                                                           {"multistep", Shape::kMultiStep}, {"poly", Shape::kPolynomial},
                                                           {"cosine", Shape::kCosine},       {"onecycle", Shape::kOneCycle}};

}  // namespace

std::optional<LearningRatePolicy> ParseLearningRatePolicy(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  std::vector<std::string> arguments;
  if (absl::StrContains(text, ':')) arguments = absl::StrSplit(parts.second, ',');
  for (const auto& [name, shape] : kShapes) {
    LearningRatePolicy policy{.shape = shape};
    if (parts.first == name && ReadArguments(arguments, policy)) return policy;
  }
  return std::nullopt;
}

std::vector<std::string> LearningRateShapes() {
  std::vector<std::string> names;
  for (const auto& [name, shape] : kShapes) names.emplace_back(name);
  return names;
}

absl::Status CheckPolicy(const LearningRatePolicy& policy) {
  if (policy.function) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRateNumbers(policy));
  if (policy.warm_up < 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::warm_up of 0 or more steps, found %d", policy.warm_up));
  }
  if (policy.shape == Shape::kMultiStep && !std::is_sorted(policy.milestones.begin(), policy.milestones.end())) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::milestones in ascending order, found %s",
                        absl::StrJoin(policy.milestones, ", ")));
  }
  if (policy.shape == Shape::kStep && policy.every < 1) {
    return absl::FailedPreconditionError(
        absl::StrFormat("learning rate: expected LearningRatePolicy::every of at least 1 step, found %d", policy.every));
  }
  const bool is_one_cycle = policy.shape == Shape::kOneCycle;
  if (!is_one_cycle && policy.shape != Shape::kPolynomial && policy.shape != Shape::kCosine) return absl::OkStatus();
  const int64_t warm_up = is_one_cycle ? 0 : policy.warm_up;
  if (policy.steps > warm_up) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "learning rate: expected the number of steps of the whole run (LearningRatePolicy::steps), more than those of the "
      "warm-up, found %s and a warm-up of %d",
      base::Counted(policy.steps, "step"), warm_up));
}

double LearningRateAt(const LearningRatePolicy& policy, int64_t step) {
  if (policy.function) return policy.function(step);
  if (policy.shape == Shape::kOneCycle) return OneCycle(policy, step);
  const auto warm_up = static_cast<double>(policy.warm_up), t = static_cast<double>(step);
  const double base = policy.base * (step < policy.warm_up ? (t + 1) / warm_up : 1);
  const double share = std::clamp((t - warm_up) / (static_cast<double>(policy.steps) - warm_up), 0.0, 1.0);
  switch (policy.shape) {
    case Shape::kConstant:
      return base;
    case Shape::kStep:
      return base * std::pow(policy.factor, static_cast<double>(step / policy.every));
    case Shape::kMultiStep: {
      const auto passed = std::upper_bound(policy.milestones.begin(), policy.milestones.end(), step);
      return base * std::pow(policy.factor, static_cast<double>(passed - policy.milestones.begin()));
    }
    case Shape::kPolynomial:
      return base * std::pow(1 - share, policy.power);
    case Shape::kCosine:
      return AlongCosine(base, 0, share);
    case Shape::kOneCycle:
      break;
  }
  return base;
}

}  // namespace colonnade::engine
