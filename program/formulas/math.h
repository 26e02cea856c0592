// Element-wise formulas, one source for every backend and every element type.
#ifndef COLONNADE_PROGRAM_FORMULAS_MATH_H_
#define COLONNADE_PROGRAM_FORMULAS_MATH_H_

#include <cmath>
#include <cstdint>

#include "program/formulas/host_device.h"
#include "program/formulas/philox.h"

namespace colonnade::program {

// Relu(NaN) is 0 here; a library's kernel may give NaN. So a NaN before a ReLU need not reach loss and gradients, and their
// flags alone do not prove weights sound: those are looked at where they are loaded and where training ends.
template <class T>
COLONNADE_HOST_DEVICE inline T Relu(T x) {
  return x > T(0) ? x : T(0);
}

// dx of y = Relu(x), from y.
template <class T>
COLONNADE_HOST_DEVICE inline T ReluGradient(T y, T dy) {
  return y > T(0) ? dy : T(0);
}

// GELU: y = x·Φ(x), Φ the normal distribution, by erfc so that its small values keep their digits; NaN for x = −∞.
// Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
template <class T>
COLONNADE_HOST_DEVICE inline T Gelu(T x) {
  return x * (T(0.5) * std::erfc(x * T(-0.70710678118654752440)));  // 1/√2
}

// dx of y = Gelu(x), from x:  dy·(Φ(x) + x·φ(x)), φ the normal density.
template <class T>
COLONNADE_HOST_DEVICE inline T GeluGradient(T x, T dy) {
  const T cumulative = T(0.5) * std::erfc(x * T(-0.70710678118654752440));
  const T density = T(0.39894228040143267794) * std::exp(T(-0.5) * x * x);  // 1/√(2π)
  return dy * (cumulative + x * density);
}

// Whether dropout keeps an element, by its word of the stream (seed, kDropout, layer, step): element i has word i % 4 of
// block i / 4.
COLONNADE_HOST_DEVICE inline bool IsKeptByDropout(uint32_t word, double rate) {
  return UniformFloat(word) >= static_cast<float>(rate);
}

// Whether dropout keeps each of the four elements 4·block … 4·block+3.
struct Keep4 {
  bool keep[4];
};
COLONNADE_HOST_DEVICE inline Keep4 DropoutBlock(uint64_t seed, uint32_t stream, uint64_t step, uint64_t block, double rate) {
  const Philox4 r = RandomBlock(seed, RandomPurpose::kDropout, stream, step, block);
  Keep4 k;
  for (int i = 0; i < 4; ++i) k.keep[i] = IsKeptByDropout(r.v[i], rate);
  return k;
}

// NaN and infinities have all exponent bits set.
COLONNADE_HOST_DEVICE inline bool IsFinite(float x) { return x - x == 0.0f; }
COLONNADE_HOST_DEVICE inline bool IsFinite(double x) { return x - x == 0.0; }

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_FORMULAS_MATH_H_
