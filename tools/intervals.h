// How far to trust predicted steps: they are simulated on many draws of what the profile is unsure of
// (engine/uncertainty.h).
#ifndef COLONNADE_TOOLS_INTERVALS_H_
#define COLONNADE_TOOLS_INTERVALS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/machine.h"
#include "program/representative_program.h"
#include "tools/fit.h"

namespace colonnade::tools {

// The fewest draws of which an interval holds 90 %.
inline constexpr int kLeastForAnInterval = 20;

// From the 5th to the 95th percentile; of fewer than kLeastForAnInterval draws from the least to the most.
struct Interval {
  double low = 0, high = 0;
};

struct DrawOptions {
  int draws = 0;  // 0: 100; fewer, but at least 20, where the programs have many tasks
  uint64_t seed = 1;
  std::function<void(int done, int draws)> progress = nullptr;
};

// Seconds of each program in each draw.
class DrawnSteps {
 public:
  explicit DrawnSteps(std::vector<std::vector<double>> seconds) : seconds_(std::move(seconds)) {}

  int draws() const { return static_cast<int>(seconds_.size()); }
  // REQUIRES: at least one draw.
  Interval Of(size_t program) const;
  // Returns the share of draws that rank the programs as `nominal` does, their seconds on the profile itself.
  double PartInOrder(absl::Span<const double> nominal) const;
  // Returns the share of draws in which program `a` is faster than `b`.
  double PartFaster(size_t a, size_t b) const;

 private:
  std::vector<std::vector<double>> seconds_;  // by draw and program
};

// Draws, refits (where `refit` is not null) and simulates. No draws where the profile is certain of everything. A draw that
// cannot be refitted is left out. FailedPrecondition where none is left.
absl::StatusOr<DrawnSteps> DrawSteps(const engine::Machine& machine,
                                     absl::Span<const program::RepresentativeProgram* const> programs, const Refit& refit,
                                     const DrawOptions& options);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_INTERVALS_H_
