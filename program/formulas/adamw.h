// The update of a weight by Adam with decoupled weight decay.
#ifndef COLONNADE_PROGRAM_FORMULAS_ADAMW_H_
#define COLONNADE_PROGRAM_FORMULAS_ADAMW_H_

#include <cmath>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// In step t, from 1, of the whole run:
//   m ← beta1·m + (1 − beta1)·g,   v ← beta2·v + (1 − beta2)·g²,
//   w ← w − lr·weight_decay·w − lr·(m/(1 − beta1^t)) / (sqrt(v/(1 − beta2^t)) + epsilon).
// Source: Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2, without its schedule multiplier; as torch.optim.AdamW,
// but that t counts the steps that a gate skipped too.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool operator==(const AdamW&) const = default;
};

// What the elements of one step have in common. 1 − beta^t is taken as −expm1(t·log(beta)), which keeps its digits.
template <class T>
struct AdamWStep {
  T beta1, beta2, rest1, rest2;  // rest = 1 − beta
  T unbias1, unbias2;            // 1/(1 − beta^t)
  T epsilon;

  COLONNADE_HOST_DEVICE AdamWStep(const AdamW& adam, double t)
      : beta1(static_cast<T>(adam.beta1)),
        beta2(static_cast<T>(adam.beta2)),
        rest1(static_cast<T>(1 - adam.beta1)),
        rest2(static_cast<T>(1 - adam.beta2)),
        unbias1(Unbias(adam.beta1, t)),
        unbias2(Unbias(adam.beta2, t)),
        epsilon(static_cast<T>(adam.epsilon)) {}

  COLONNADE_HOST_DEVICE static T Unbias(double beta, double t) {
    return T(-1) / std::expm1(static_cast<T>(t) * static_cast<T>(std::log(beta)));
  }
  COLONNADE_HOST_DEVICE void operator()(T lr, T weight_decay, T g, T& m, T& v, T& w) const {
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    w -= lr * (weight_decay * w + m * unbias1 / (std::sqrt(v * unbias2) + epsilon));
  }
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_ADAMW_H_
