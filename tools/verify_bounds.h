// Internal to tools/. How far apart two results of a step are, and how far roundings alone may move them: what
// tools/verify_plan.h compares by. Any thread.
#ifndef COLONNADE_TOOLS_VERIFY_BOUNDS_H_
#define COLONNADE_TOOLS_VERIFY_BOUNDS_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/state.h"
#include "partition/lower.h"

namespace colonnade::tools {

using Gradients = std::map<std::string, std::vector<double>>;  // by parameter

// Σ aᵢ²
double Squares(const std::vector<double>& a);
// ‖a‖ = √Σ aᵢ²
double Norm(const std::vector<double>& a);
// Returns the norm of all gradients together.
double Norm(const Gradients& gradients);
// Returns max(‖a‖, least), but 1 where that is zero.
double NormOrOne(const std::vector<double>& a, double least);

// after − before. REQUIRES: both have equally many elements.
std::vector<double> Change(const std::vector<double>& after, const std::vector<double>& before);

// ‖a − b‖ / max(‖b‖, least); ‖a‖ where the divisor is zero. REQUIRES: both have equally many elements.
double Distance(const std::vector<double>& a, const std::vector<double>& b, double least = 0);
// |‖a‖ − ‖b‖| / ‖b‖ of all gradients together: a step whose gradients are clipped is scaled by their norm.
double DistanceOfNorms(const Gradients& a, const Gradients& b);
// Returns whether a step clips these gradients to `clip_norm`: ‖g‖ > clip_norm > 0.
bool IsClipped(const Gradients& gradients, double clip_norm);
// |a − b| / max(|b|, 0.1): a smaller loss is what is left of larger numbers.
double LossDistance(double a, double b);

// Returns 2⁻²³·‖before‖ / ‖change‖, by what part of its change a parameter in f32 differs whose two values were rounded to
// either side; 0 where nothing changed.
double TwoRoundings(const std::vector<double>& before, const std::vector<double>& change);

// Returns how far AdamW moves an element at most whose gradients were small before: r·max(1, (1 − β₁) / √(1 − β₂)), where r
// is the largest rate of any layer. REQUIRES: the update is AdamW's.
double LargestStepOfAdamW(const partition::UpdateOptions& update, double learning_rate);

// What a step made of one parameter, and the gradient by which.
struct ParameterStep {
  const std::vector<double>& change;
  const std::vector<double>& gradient;
};

// AdamW divides each element by the root of g²: one whose two gradients, of which each may be right, have few digits in
// common moves by steps that have as few, and one whose gradient is roundings alone by the whole rate, to either side. A
// momentum that nearly cancels the gradient leaves a small step of what is as inexact as a large one.
// Returns ‖u‖, the norm of what such steps may differ by,
//
//   uᵢ = max(4·δᵢ·bᵢ, δᵢ·largest_step) where δᵢ = |gᵢ − g′ᵢ| / |gᵢ| < 1/4, else bᵢ = |cᵢ| + min(|c′ᵢ|, |cᵢ| + largest_step)
//
// where c and g are the change and the gradient of `one`, c′ and g′ those of `many`, and uᵢ is 0 where the gradients agree.
double NormOfUnsureSteps(const ParameterStep& one, const ParameterStep& many, double largest_step);

// Draws parameters w·(1 + ε), ε evenly from −bits to bits, of those of which there are gradients: what a step makes of them
// tells what roundings do to it.
class Neighbours {
 public:
  // `parameters` must outlive the result.
  Neighbours(const std::vector<engine::NamedTensor>& parameters, const Gradients& gradients, double bits, uint64_t seed);
  std::vector<engine::NamedTensor> Next();
  bool AllDrawn() const;  // as many as are worth a step each

 private:
  const std::vector<engine::NamedTensor>* parameters_;
  std::vector<bool> is_off_;  // by parameter
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> of_value_;
  int drawn_ = 0;
};

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_VERIFY_BOUNDS_H_
