// The power by which local response normalisation divides.
#ifndef COLONNADE_PROGRAM_FORMULAS_LRN_H_
#define COLONNADE_PROGRAM_FORMULAS_LRN_H_

#include <cmath>

#include "program/formulas/host_device.h"

namespace colonnade::program {

// Returns s^(−3/4), that of the paper, without a logarithm, and without a number larger than s.
COLONNADE_HOST_DEVICE inline float ToMinusThreeQuarters(float s) {
  const float root = 1.0f / std::sqrt(s);
  return root * std::sqrt(root);
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_LRN_H_
