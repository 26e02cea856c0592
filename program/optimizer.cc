#include "program/optimizer.h"

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "program/epsilon.h"

namespace colonnade::program {
namespace {

absl::Status Wrong(absl::string_view name, absl::string_view expected, double found) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected a number %s, found %g", name, expected, found));
}

struct Checker {
  absl::Status operator()(const Sgd& sgd) const { return CheckMomentum(sgd.momentum); }
  absl::Status operator()(const Lars& lars) const {
    if (!(lars.trust >= 0 && FitsF32(lars.trust))) return Wrong("trust", "from 0 that f32 holds", lars.trust);
    return CheckMomentum(lars.momentum);
  }
  absl::Status operator()(const AdamW& adam) const {
    for (double beta : {adam.beta1, adam.beta2}) {
      if (!(beta >= 0 && beta < 1)) return Wrong("betas", "from 0 and below 1", beta);
    }
    const bool is_taken = adam.epsilon >= kLeastAdamEpsilon && FitsF32(adam.epsilon);
    return is_taken ? absl::OkStatus()
                    : Wrong("epsilon", absl::StrFormat("from %g that f32 holds", kLeastAdamEpsilon), adam.epsilon);
  }

  static absl::Status CheckMomentum(double momentum) {
    return momentum >= 0 && momentum <= 1 ? absl::OkStatus() : Wrong("momentum", "from 0 to 1", momentum);
  }
};

}  // namespace

absl::Status CheckOptimizer(const Optimizer& optimizer) { return std::visit(Checker(), optimizer); }

}  // namespace colonnade::program
