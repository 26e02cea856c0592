#include "engine/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"

namespace colonnade::engine {
namespace {

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

}  // namespace

absl::Status CheckPolicy(const LearningRatePolicy& policy) {
  using Shape = LearningRatePolicy::Shape;
  const bool is_one_cycle = policy.shape == Shape::kOneCycle;
  if (!is_one_cycle && policy.shape != Shape::kPolynomial && policy.shape != Shape::kCosine) return absl::OkStatus();
  const int64_t warm_up = is_one_cycle ? 0 : policy.warm_up;
  if (policy.steps > warm_up) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "learning rate: expected the number of steps of the whole run (LearningRatePolicy::steps), more than those of the "
      "warm-up, found %d steps and a warm-up of %d",
      policy.steps, warm_up));
}

double LearningRateAt(const LearningRatePolicy& policy, int64_t step) {
  using Shape = LearningRatePolicy::Shape;
  if (policy.shape == Shape::kOneCycle) return OneCycle(policy, step);
  const auto warm_up = static_cast<double>(policy.warm_up), t = static_cast<double>(step);
  const double base = policy.base * (step < policy.warm_up ? (t + 1) / warm_up : 1);
  const double share = std::clamp((t - warm_up) / (static_cast<double>(policy.steps) - warm_up), 0.0, 1.0);
  switch (policy.shape) {
    case Shape::kStep:
      return policy.every <= 0 ? base : base * std::pow(policy.factor, static_cast<double>(step / policy.every));
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
