// The activations: which there are, and what is true of each whatever runs it. Their formulas stand in
// program/formulas/math.h.
#ifndef COLONNADE_PROGRAM_FORMULAS_ACTIVATION_H_
#define COLONNADE_PROGRAM_FORMULAS_ACTIVATION_H_

#include <cstdint>

#include "program/formulas/host_device.h"
#include "program/formulas/math.h"

namespace colonnade::program {

enum class Activation : uint8_t { kRelu, kGelu };
inline constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu};  // all of them

// One struct for each activation: its words, its value at x, and its gradient, which is dx from dy and from what forward
// kept: x where kKeepsInput is true, else y.
struct ReluFormula {
  static constexpr const char *kLayer = "Relu", *kForward = "relu_forward", *kBackward = "relu_backward";
  static constexpr bool kKeepsInput = false;
  template <class T>
  COLONNADE_HOST_DEVICE static T Value(T x) {
    return Relu(x);
  }
  template <class T>
  COLONNADE_HOST_DEVICE static T Gradient(T y, T dy) {
    return ReluGradient(y, dy);
  }
};

struct GeluFormula {
  static constexpr const char *kLayer = "Gelu", *kForward = "gelu_forward", *kBackward = "gelu_backward";
  static constexpr bool kKeepsInput = true;
  template <class T>
  COLONNADE_HOST_DEVICE static T Value(T x) {
    return Gelu(x);
  }
  template <class T>
  COLONNADE_HOST_DEVICE static T Gradient(T x, T dy) {
    return GeluGradient(x, dy);
  }
};

// Calls f with the formula of `activation`.
template <class F>
auto WithFormula(Activation activation, const F& f) {
  switch (activation) {
    case Activation::kRelu:
      break;
    case Activation::kGelu:
      return f(GeluFormula{});
  }
  return f(ReluFormula{});
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_ACTIVATION_H_
