#include "cli/calibration_time.h"

#include <algorithm>

namespace colonnade::cli {
namespace {

constexpr absl::Duration kLoading = absl::Milliseconds(300);  // of a run, beside its first steps
constexpr int kUncountedSteps = 2;                            // of each Program, which are not counted
constexpr int kStepsOfASlice = 2;                             // at least: one that is not counted, and one that is
constexpr double kStepsCount = 2;    // a slice that takes so many times its least time says how fast steps are,
constexpr double kManyFlops = 1e10;  // if they are of so many flop: short ones are all overhead
constexpr size_t kPartsOfInput = 10;

}  // namespace

std::vector<tools::CalibrationPlan> PlansToTime(int devices, bool all) {
  std::vector<tools::CalibrationPlan> plans = tools::CalibrationPlans(devices);
  const auto is_power_of_two = [](int n) { return (n & (n - 1)) == 0; };
  std::erase_if(plans, [&](const tools::CalibrationPlan& plan) {
    return !all && plan.devices > 4 && plan.devices != devices && !is_power_of_two(plan.devices);
  });
  return plans;
}

std::vector<double> SecondsOfAnImage(const std::vector<Arrival>& arrivals) {
  std::vector<double> seconds;
  if (arrivals.empty()) return seconds;
  const size_t parts = std::min(kPartsOfInput, arrivals.size() - 1);
  for (size_t part = 0; part < parts; ++part) {
    const Arrival &first = arrivals[part * (arrivals.size() - 1) / parts],
                  &last = arrivals[(part + 1) * (arrivals.size() - 1) / parts];
    seconds.push_back(absl::ToDoubleSeconds(last.time - first.time) / static_cast<double>(last.images - first.images));
  }
  return seconds;
}

CalibrationTime::Costs CalibrationTime::CostsOf(const CalibrationRun& run) const {
  const auto known = known_.find(run.network);
  if (known != known_.end()) return known->second;
  const absl::Duration steps = absl::Seconds(run.flops / flops_per_sec_);
  return {.loading = kLoading + kUncountedSteps * steps, .slice = std::max(run.programs * slice_, kStepsOfASlice * steps)};
}

absl::Duration CalibrationTime::Expected(size_t run, int slices) const {
  const Costs costs = CostsOf(runs_[run]);
  return costs.loading + slices * costs.slice;
}

absl::Duration CalibrationTime::TakenBy(size_t first, int slices) const {
  absl::Duration sum;
  for (size_t r = first; r < runs_.size(); ++r) sum += Expected(r, slices);
  return sum;
}

int CalibrationTime::SlicesInTime(size_t run, absl::Duration passed) const {
  for (int slices = kMostSlices; slices > 0; --slices) {
    if (passed + TakenBy(run, slices) <= budget_) return slices;
  }
  const bool is_guess = !known_.contains(runs_[run].network) && passed <= budget_ / 2;  // not to leave out a whole network
  return is_guess || passed + Expected(run, 1) <= budget_ ? 1 : 0;
}

absl::Duration CalibrationTime::Left(size_t run, absl::Duration passed) const {
  if (run >= runs_.size()) return absl::ZeroDuration();
  const absl::Duration taken = TakenBy(run, std::max(SlicesInTime(run, passed), 1));
  return std::max(std::min(taken, budget_ - passed), absl::ZeroDuration());
}

void CalibrationTime::Add(size_t run, absl::Duration loading, int slices, absl::Duration running) {
  Costs& known = known_[runs_[run].network];
  const absl::Duration slice = running / std::max(slices, 1);
  known.loading = (known.runs * known.loading + loading) / (known.runs + 1);
  known.slice = (known.runs * known.slice + slice) / (known.runs + 1);
  ++known.runs;
  const bool steps_count = slice > kStepsCount * runs_[run].programs * slice_;
  if (steps_count && runs_[run].flops >= kManyFlops)
    flops_per_sec_ = kStepsOfASlice * runs_[run].flops / absl::ToDoubleSeconds(slice);
}

}  // namespace colonnade::cli
