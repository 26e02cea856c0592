#include "tools/host_terms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace colonnade::tools {
namespace {

constexpr int kTerms = 4;
constexpr double HostTerms::*kTermOf[kTerms] = {&HostTerms::sec_per_task, &HostTerms::step_sec, &HostTerms::sec_per_device,
                                                &HostTerms::sec_per_image};
constexpr double kStandardErrors = 3;   // by which a term is above 0
constexpr double kLeastError = 1e-3;    // of a time, as a part of it: none is surer than that
constexpr double kLeastPivot = 1e-9;    // of columns of length 1: what is below depends on the others
constexpr double kClearlyLess = 0.999;  // more than what roundings make

using HostRow = std::array<double, kTerms>;  // what a step counts, over its seconds
HostRow HostRowOf(const HostStep& step) {
  return {step.tasks / step.seconds, 1 / step.seconds, step.devices / step.seconds, step.images / step.seconds};
}

struct FittedTerms {
  std::vector<double> values, standard_errors;  // of its terms
  double variance = 0;                          // of a relative error
};

using Matrix = std::vector<std::vector<double>>;

// Gauss and Jordan's. Nothing where a row depends on the others. REQUIRES: symmetric, ones on the diagonal.
std::optional<Matrix> Inverse(Matrix a) {
  const size_t n = a.size();
  Matrix inverse(n, std::vector<double>(n, 0));
  for (size_t i = 0; i < n; ++i) inverse[i][i] = 1;
  for (size_t i = 0; i < n; ++i) {
    const double pivot = a[i][i];
    if (pivot < kLeastPivot) return std::nullopt;
    for (size_t j = 0; j < n; ++j) a[i][j] /= pivot, inverse[i][j] /= pivot;
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = a[k][i];
      for (size_t j = 0; j < n; ++j) a[k][j] -= factor * a[i][j], inverse[k][j] -= factor * inverse[i][j];
    }
  }
  return inverse;
}

double LengthOf(const std::vector<HostRow>& rows, int term) {
  double sum = 0;
  for (const HostRow& row : rows) sum += row[term] * row[term];
  return std::sqrt(sum);
}

// Returns the products of columns, each scaled to length 1.
Matrix ProductsOf(const std::vector<HostRow>& rows, const std::vector<int>& terms, const std::vector<double>& lengths) {
  Matrix products(terms.size(), std::vector<double>(terms.size(), 0));
  for (const HostRow& row : rows) {
    for (size_t i = 0; i < terms.size(); ++i) {
      for (size_t j = 0; j < terms.size(); ++j) {
        products[i][j] += row[terms[i]] * row[terms[j]] / lengths[i] / lengths[j];
      }
    }
  }
  return products;
}

// Returns the variance of a row's relative error, as if it came from as many rows as there are beyond the terms.
double VarianceOf(const std::vector<HostRow>& rows, const std::vector<int>& terms, const std::vector<double>& values) {
  double squares = 0;
  for (const HostRow& row : rows) {
    double error = -1;
    for (size_t i = 0; i < terms.size(); ++i) error += values[i] * row[terms[i]];
    squares += error * error;
  }
  const double beyond = std::max(1.0, static_cast<double>(rows.size()) - static_cast<double>(terms.size()));
  return std::max(squares / beyond, kLeastError * kLeastError);
}

// By these terms alone, so that each row comes to 1. Nothing where the rows do not tell the terms apart.
std::optional<FittedTerms> FitTerms(const std::vector<HostRow>& rows, const std::vector<int>& terms) {
  const size_t n = terms.size();
  if (n > 1 && rows.size() <= n) return std::nullopt;
  std::vector<double> lengths, sums(n, 0);
  for (int term : terms) lengths.push_back(LengthOf(rows, term));
  if (std::count(lengths.begin(), lengths.end(), 0.0) > 0) return std::nullopt;
  for (const HostRow& row : rows) {
    for (size_t i = 0; i < n; ++i) sums[i] += row[terms[i]] / lengths[i];
  }
  const std::optional<Matrix> inverse = Inverse(ProductsOf(rows, terms, lengths));
  if (!inverse.has_value()) return std::nullopt;
  FittedTerms fit{.values = std::vector<double>(n, 0), .standard_errors = {}};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) fit.values[i] += (*inverse)[i][j] * sums[j] / lengths[i];
  }
  fit.variance = VarianceOf(rows, terms, fit.values);
  for (size_t i = 0; i < n; ++i) {
    fit.standard_errors.push_back(std::sqrt(fit.variance * std::max(0.0, (*inverse)[i][i])) / lengths[i]);
  }
  return fit;
}

bool TellsItsTermsApart(const FittedTerms& fit) {
  for (size_t i = 0; i < fit.values.size(); ++i) {
    if (!(fit.values[i] > kStandardErrors * fit.standard_errors[i])) return false;
  }
  return true;
}

// The fewest first; of as many in the order of kTermOf.
std::vector<std::vector<int>> SetsOfTerms() {
  std::vector<std::vector<int>> sets;
  for (unsigned of = 1; of < 1u << kTerms; ++of) {
    sets.emplace_back();
    for (int term = 0; term < kTerms; ++term) {
      if ((of >> term & 1) != 0) sets.back().push_back(term);
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return sets;
}

}  // namespace

HostFit FitHostTerms(absl::Span<const HostStep> steps) {
  std::vector<HostRow> rows;
  for (const HostStep& step : steps) {
    if (step.seconds > 0) rows.push_back(HostRowOf(step));
  }
  HostFit best;
  std::optional<double> variance;
  for (const std::vector<int>& terms : SetsOfTerms()) {
    const std::optional<FittedTerms> fit = FitTerms(rows, terms);
    if (!fit.has_value() || !TellsItsTermsApart(*fit)) continue;
    if (variance.has_value() && fit->variance >= kClearlyLess * *variance) continue;
    variance = fit->variance;
    best = {};
    for (size_t i = 0; i < terms.size(); ++i) {
      best.terms.*kTermOf[terms[i]] = fit->values[i];
      best.standard_errors.*kTermOf[terms[i]] = fit->standard_errors[i];
    }
  }
  return best;
}

}  // namespace colonnade::tools
