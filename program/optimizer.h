// How parameters are updated: the optimisers, and what each keeps beside a parameter.
#ifndef COLONNADE_PROGRAM_OPTIMIZER_H_
#define COLONNADE_PROGRAM_OPTIMIZER_H_

#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "program/formulas/adamw.h"
#include "program/formulas/sgd.h"
#include "program/program.h"

namespace colonnade::program {

// Stochastic gradient descent with momentum, in a form of sgd.h.
struct Sgd {
  double momentum = 0.9;
  SgdForm form = SgdForm::kKrizhevsky;
  bool operator==(const Sgd&) const = default;
};

// Layer-wise adaptive rate scaling: SGD in Krizhevsky's form, whose rate has a factor for each parameter w of gradient g,
//   trust·|w| / (|g| + weight_decay·|w|),   1 where that is 0 or not finite.
// Norms are of whole tensors. Source: You, Gitman & Ginsburg 2017, arXiv:1708.03888, equation 6.
struct Lars {
  double momentum = 0.9, trust = 1e-3;
  bool operator==(const Lars&) const = default;
};

using Optimizer = std::variant<Sgd, Lars, AdamW>;

// Returns InvalidArgument where a number of an optimiser is none that its update can compute with.
absl::Status CheckOptimizer(const Optimizer& optimizer);

// Returns what an optimiser keeps beside each parameter, in the order of its op's operands.
inline std::vector<StateKind> StateOf(const Optimizer& optimizer) {
  return std::holds_alternative<AdamW>(optimizer) ? std::vector{StateKind::kMomentum, StateKind::kSecondMoment}
                                                  : std::vector{StateKind::kMomentum};
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_OPTIMIZER_H_
