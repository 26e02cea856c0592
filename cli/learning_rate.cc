#include "cli/learning_rate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/optimizer.h"
#include "program/status_macros.h"

namespace colonnade::cli {
namespace {

using engine::LearningRatePolicy;
using Shape = LearningRatePolicy::Shape;

// The words after the name: whole numbers above 0, then one number above 0.
bool ReadSteps(absl::Span<const std::string> words, std::vector<int64_t>& steps, double& number) {
  for (const std::string& word : words.subspan(0, words.size() - 1)) {
    if (!absl::SimpleAtoi(word, &steps.emplace_back()) || steps.back() < 1) return false;
  }
  return absl::SimpleAtod(words.back(), &number) && number > 0 && std::isfinite(number);
}

// What the words of --lr-policy say; false where they say nothing.
bool Read(const std::string& text, LearningRatePolicy& policy) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(":,"));
  const std::string& name = words[0];
  const absl::Span<const std::string> rest = absl::MakeConstSpan(words).subspan(1);
  if (name == "constant") return rest.empty();
  if (name == "cosine" || name == "onecycle") {
    policy.shape = name == "cosine" ? Shape::kCosine : Shape::kOneCycle;
    return rest.empty();
  }
  std::vector<int64_t> steps;
  if (name == "poly") {
    policy.shape = Shape::kPolynomial;
    return rest.size() == 1 && ReadSteps(rest, steps, policy.power);
  }
  if (rest.size() < 2 || !ReadSteps(rest, steps, policy.factor)) return false;
  if (name == "step") {
    policy.every = steps[0];
    return steps.size() == 1;
  }
  policy.shape = Shape::kMultiStep;
  policy.milestones = std::move(steps);
  return name == "multistep" && std::is_sorted(policy.milestones.begin(), policy.milestones.end());
}

}  // namespace

absl::StatusOr<LearningRatePolicy> LearningRateOf(const Flags& flags, const Session& session, int64_t steps) {
  LearningRatePolicy policy{
      .base = flags.lr >= 0 ? flags.lr : DefaultLearningRate(flags, session), .steps = steps, .warm_up = flags.warm_up};
  if (flags.base_batch > 0) policy.base *= static_cast<double>(flags.batch) / static_cast<double>(flags.base_batch);
  const std::string& text = flags.lr_policy.empty() ? session.model.lr_policy : flags.lr_policy;
  if (!Read(text, policy)) {
    const bool is_of_file = flags.lr_policy.empty();
    const std::string where = is_of_file ? absl::StrCat(flags.model, ": training.lr_policy") : "--lr-policy";
    return absl::Status(
        is_of_file ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
        absl::StrFormat("%s: expected constant, step:N,F, multistep:N1,N2,…,F with ascending steps, poly:P, cosine or "
                        "onecycle, with numbers above 0, found \"%s\"",
                        where, text));
  }
  return policy;
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

std::string Digits(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

std::string Describe(const LearningRatePolicy& policy) {
  std::string text;
  switch (policy.shape) {
    case Shape::kStep:
      text = policy.every > 0 ? absl::StrCat("step:", policy.every, ",", Digits(policy.factor)) : "constant";
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
