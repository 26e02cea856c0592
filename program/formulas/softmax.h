// What a sample's label means to its loss and its hits, in kernels of both backends; the oracle (cpu/ref/) has its own.
#ifndef COLONNADE_PROGRAM_FORMULAS_SOFTMAX_H_
#define COLONNADE_PROGRAM_FORMULAS_SOFTMAX_H_

#include <cstdint>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// Whether class `k` stands before the label, whose logit is `own`: a larger logit, or an equal one of a smaller index. A NaN
// stands before all.
template <class T>
COLONNADE_HOST_DEVICE inline bool IsAhead(T logit, int64_t k, T own, int64_t label) {
  return k != label && (!(logit <= own) || (logit == own && k < label));
}

// Returns the share of a class in the target, (1 − smoothing)·onehot(label) + smoothing/classes.
template <class T>
COLONNADE_HOST_DEVICE inline T SmoothedTarget(double smoothing, int64_t classes, bool is_label) {
  const T of_each = static_cast<T>(smoothing / static_cast<double>(classes));
  return is_label ? static_cast<T>(1 - smoothing) + of_each : of_each;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_SOFTMAX_H_
