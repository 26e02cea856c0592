// The learning rate of each step, a function of the step alone: a run that goes on has the rates of one that never stopped.
#ifndef COLONNADE_ENGINE_LEARNING_RATE_H_
#define COLONNADE_ENGINE_LEARNING_RATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::engine {

// With t the step, from 0, and B the base rate:
//   kConstant     B
//   kStep         B · factor^⌊t / every⌋
//   kMultiStep    B · factor^(number of milestones ≤ t)
//   kPolynomial   B · (1 − s)^power
//   kCosine       B · (1 + cos(π s)) / 2                                             (Loshchilov & Hutter 2017, no restarts)
//   kOneCycle     up from B / 25 to B in the first 3/10 of the steps, then down to B / 250,000, each along half a cosine
//                                                                                    (Smith & Topin 2018, as PyTorch has it
//                                                                                     without cycle_momentum)
// where s = (t − warm_up) / (steps − warm_up), at most 1. In the first `warm_up` steps all but kOneCycle are multiplied by
// (t + 1) / warm_up, with s = 0 (Goyal et al. 2017).
struct LearningRatePolicy {
  enum class Shape { kConstant, kStep, kMultiStep, kPolynomial, kCosine, kOneCycle } shape = Shape::kConstant;
  double base = 0.01;
  double factor = 0.1;                // of kStep and kMultiStep
  int64_t every = 1;                  // steps, at least 1
  std::vector<int64_t> milestones{};  // steps, ascending
  double power = 1;
  int64_t steps = 0;  // of the whole run; of the last three shapes
  int64_t warm_up = 0;
  // Where it is set, it gives the rate of step t, and nothing else of the policy counts. No file records it: who goes on
  // with a checkpoint gives the function again, and it is asked for the steps of the whole run, so it must be a function of
  // the step alone for the rates to be those of a run that never stopped.
  std::function<double(int64_t step)> function{};
};

// What ParseLearningRatePolicy reads; N are steps, F and P numbers above 0.
inline constexpr char kLearningRatePolicies[] =
    "constant, step:N,F, multistep:N1,N2,…,F with ascending steps, poly:P, cosine or onecycle, with numbers above 0";

// Reads one of kLearningRatePolicies, as --lr-policy, network files and models::ModelInfo::lr_policy spell them: shape,
// factor and what the shape needs beside the length of the run. Nothing where `text` is none of them.
std::optional<LearningRatePolicy> ParseLearningRatePolicy(absl::string_view text);

// Returns the shapes by name: "constant", "step", …
std::vector<std::string> LearningRateShapes();

// Returns FailedPrecondition where the policy gives no rate to some step, or one that is none: a base that is negative or
// beyond f32; a factor of kStep and kMultiStep, or a power of kPolynomial, that is not a finite number above 0; kStep with
// `every` below 1; kMultiStep with milestones that are not ascending; kPolynomial, kCosine and kOneCycle without a length,
// or a warm-up as long as that; a warm-up below 0.
absl::Status CheckPolicy(const LearningRatePolicy& policy);

// Returns the rate of a step, counted from 0; of a function whatever that returns. REQUIRES: CheckPolicy(policy) is OK.
double LearningRateAt(const LearningRatePolicy& policy, int64_t step);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_LEARNING_RATE_H_
