#include "tools/verify_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>

namespace colonnade::tools {

double Squares(const std::vector<double>& a) {
  double squares = 0;
  for (double x : a) squares += x * x;
  return squares;
}

double Norm(const std::vector<double>& a) { return std::sqrt(Squares(a)); }

double Norm(const Gradients& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) squares += Squares(gradient);
  return std::sqrt(squares);
}

double NormOrOne(const std::vector<double>& a, double least) {
  const double norm = std::max(Norm(a), least);
  return norm > 0 ? norm : 1;
}

std::vector<double> Change(const std::vector<double>& after, const std::vector<double>& before) {
  std::vector<double> change(after.size());
  for (size_t i = 0; i < after.size(); ++i) change[i] = after[i] - before[i];
  return change;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b, double least) {
  const double difference = Norm(Change(a, b));
  return difference == 0 ? 0 : difference / NormOrOne(b, least);
}

double DistanceOfNorms(const Gradients& a, const Gradients& b) { return Distance({Norm(a)}, {Norm(b)}); }

bool IsClipped(const Gradients& gradients, double clip_norm) { return clip_norm > 0 && Norm(gradients) > clip_norm; }

double LossDistance(double a, double b) {
  constexpr double kLeastLoss = 0.1;
  return std::abs(a - b) / std::max(std::abs(b), kLeastLoss);
}

double TwoRoundings(const std::vector<double>& before, const std::vector<double>& change) {
  constexpr double kTwoRoundings = 1.0 / (1 << 23);
  const double changed = Norm(change);
  return changed > 0 ? kTwoRoundings * Norm(before) / changed : 0;
}

double LargestStepOfAdamW(const partition::UpdateOptions& update, double learning_rate) {
  const auto& adam = std::get<program::AdamW>(update.optimizer);
  double factor = 1;
  for (const auto& [layer, rate] : update.layer_rates) factor = std::max(factor, rate);
  return factor * learning_rate * std::max(1.0, (1 - adam.beta1) / std::sqrt(1 - adam.beta2));
}

double NormOfUnsureSteps(const ParameterStep& one, const ParameterStep& many, double largest_step) {
  constexpr double kTimesOfGradient = 4;
  std::vector<double> unsure(one.change.size());
  for (size_t i = 0; i < unsure.size(); ++i) {
    const double difference = std::abs(one.gradient[i] - many.gradient[i]), by_one = std::abs(one.change[i]);
    if (difference == 0) continue;
    const double by_both = by_one + std::min(std::abs(many.change[i]), by_one + largest_step);
    const double part = difference / std::abs(one.gradient[i]);
    const bool has_digits = kTimesOfGradient * part < 1;
    unsure[i] = has_digits ? std::max(by_both * kTimesOfGradient * part, largest_step * part) : by_both;
  }
  return Norm(unsure);
}

Neighbours::Neighbours(const std::vector<engine::NamedTensor>& parameters, const Gradients& gradients, double bits,
                       uint64_t seed)
    : parameters_(&parameters), random_(seed), of_value_(-bits, bits) {
  for (const engine::NamedTensor& tensor : parameters) is_off_.push_back(gradients.contains(tensor.name));
}

std::vector<engine::NamedTensor> Neighbours::Next() {
  ++drawn_;
  std::vector<engine::NamedTensor> off = *parameters_;
  for (size_t p = 0; p < off.size(); ++p) {
    if (!is_off_[p]) continue;
    for (double& value : off[p].values) value *= 1 + of_value_(random_);
  }
  return off;
}

bool Neighbours::AllDrawn() const {
  constexpr int kNeighbours = 16;
  return drawn_ == kNeighbours;
}

}  // namespace colonnade::tools
