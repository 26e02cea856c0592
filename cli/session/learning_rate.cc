#include "cli/session/learning_rate.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "cli/session/optimizer.h"

namespace colonnade::cli {

using engine::LearningRatePolicy;
using Shape = LearningRatePolicy::Shape;

absl::StatusOr<LearningRatePolicy> LearningRateOf(const SessionFlags& flags, const Session& session, int64_t steps) {
  const std::string& text = flags.optimizer.lr_policy.empty() ? session.model.lr_policy : flags.optimizer.lr_policy;
  std::optional<LearningRatePolicy> policy = engine::ParseLearningRatePolicy(text);
  if (!policy.has_value()) {
    const std::string shape = text.substr(0, text.find(':'));
    const std::vector<std::string> shapes = engine::LearningRateShapes();
    const bool is_known = std::find(shapes.begin(), shapes.end(), shape) != shapes.end();  // its numbers are wrong
    return absl::FailedPreconditionError(absl::StrFormat("--lr-policy: expected %s, found \"%s\"%s",
                                                         engine::kLearningRatePolicies, text,
                                                         is_known ? "" : base::DidYouMean("; ", shape, shapes)));
  }
  policy->base = flags.optimizer.lr >= 0 ? flags.optimizer.lr : DefaultLearningRate(flags.optimizer, session);
  if (flags.optimizer.base_batch > 0)
    policy->base *= static_cast<double>(flags.plan.batch) / static_cast<double>(flags.optimizer.base_batch);
  policy->steps = steps;
  policy->warm_up = flags.optimizer.warm_up;
  return *std::move(policy);
}

absl::Status CheckWarmUp(const LearningRatePolicy& policy) {
  if (policy.shape == Shape::kOneCycle && policy.warm_up > 0) {
    return absl::FailedPreconditionError("--warm-up: expected none with --lr-policy=onecycle, which warms up by itself");
  }
  const bool ends = policy.shape == Shape::kPolynomial || policy.shape == Shape::kCosine;
  if (ends && policy.warm_up >= policy.steps) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--warm-up: expected fewer steps than the run's %d, found %d", policy.steps, policy.warm_up));
  }
  return absl::OkStatus();
}

std::string GrowthNote(const LearningRatePolicy& policy) {
  const bool has_factor = policy.shape == Shape::kStep || policy.shape == Shape::kMultiStep;
  if (!has_factor || policy.factor <= 1) return "";
  return absl::StrCat("note: the factor ", Digits(policy.factor),
                      " of --lr-policy makes the learning rate grow; a factor below 1 makes it fall");
}

std::string Digits(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

std::string Describe(const LearningRatePolicy& policy) {
  std::string text;
  switch (policy.shape) {
    case Shape::kConstant:
      text = "constant";
      break;
    case Shape::kStep:
      text = absl::StrCat("step:", policy.every, ",", Digits(policy.factor));
      break;
    case Shape::kMultiStep:
      text = absl::StrCat("multistep:", absl::StrJoin(policy.milestones, ","), ",", Digits(policy.factor));
      break;
    case Shape::kPolynomial:
      text = absl::StrCat("poly:", Digits(policy.power), " over ", policy.steps, " steps");
      break;
    case Shape::kCosine:
      text = absl::StrFormat("cosine over %d steps", policy.steps);
      break;
    case Shape::kOneCycle:
      text = absl::StrFormat("onecycle over %d steps", policy.steps);
      break;
  }
  if (policy.warm_up > 0) absl::StrAppend(&text, ", warm-up of ", policy.warm_up);
  return text;
}

}  // namespace colonnade::cli
