// What updates are scaled by: clipping by the norm of all gradients, and layer-wise rates.
#ifndef COLONNADE_PROGRAM_FORMULAS_UPDATE_GATE_H_
#define COLONNADE_PROGRAM_FORMULAS_UPDATE_GATE_H_

#include <cmath>

#include "program/formulas/host_device.h"
#include "program/formulas/math.h"

namespace colonnade::program {

// Returns the factor that brings gradients whose squares sum to `total` to a norm of at most `clip_norm`; 1 if that is 0.
COLONNADE_HOST_DEVICE inline double ClipScale(double clip_norm, double total) {
  if (clip_norm == 0) return 1;
  const double scale = clip_norm / (std::sqrt(total) + 1e-6);
  return scale < 1 ? scale : 1;
}

// Returns the factor of the rate of a parameter, from the sums of squares of its gradient and of itself (UpdateGate in
// op.h).
COLONNADE_HOST_DEVICE inline double TrustRatio(double trust, double weight_decay, double scale, double g2, double w2) {
  const double w = std::sqrt(w2), ratio = trust * w / (scale * std::sqrt(g2) + weight_decay * w);
  return trust > 0 && ratio > 0 && IsFinite(ratio) ? ratio : 1;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_UPDATE_GATE_H_
