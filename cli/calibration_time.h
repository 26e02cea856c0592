// How a calibration spends the time that it is given, and how much is left of it.
#ifndef COLONNADE_CLI_CALIBRATION_TIME_H_
#define COLONNADE_CLI_CALIBRATION_TIME_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tools/calibration.h"

namespace colonnade::cli {

// Returns the plans on up to `devices` devices that a calibration runs. Above four devices it runs only powers of two and
// `devices` itself, unless `all` is true.
std::vector<tools::CalibrationPlan> PlansToTime(int devices, bool all);

// When a batch was there, and how many images had come with it and before.
struct Arrival {
  absl::Time time;
  int64_t images = 0;
};

// Returns what an image took in each of up to ten parts of a run: single batches come by twos and threes, since several
// threads make them. REQUIRES: a batch came.
std::vector<double> SecondsOfAnImage(const std::vector<Arrival>& arrivals);

inline constexpr int kMostSlices = 5;  // of each Program of a plan

// The Programs of one network under one plan, which are loaded together and run in turn.
struct CalibrationRun {
  std::string network;
  double flops = 0;  // of a step of each of its Programs, together
  int programs = 1;
};

// What loading and a slice take is guessed from flop until a run of the same network has said it. Pure: the time that has
// passed comes from outside.
class CalibrationTime {
 public:
  // `flops_per_sec`: a first guess; `slice`: the least time of a slice of a Program.
  CalibrationTime(std::vector<CalibrationRun> runs, absl::Duration budget, double flops_per_sec, absl::Duration slice)
      : runs_(std::move(runs)), budget_(budget), flops_per_sec_(flops_per_sec), slice_(slice) {}

  // Returns the most slices, up to kMostSlices, with which this run and all runs after it end in time. If there is none,
  // returns 1 if one slice of this run alone ends in time, or if its time is only a guess and at most half of the budget has
  // passed (so that no network is left out entirely); else 0.
  int SlicesInTime(size_t run, absl::Duration passed) const;
  // Returns what loading this run and so many slices of it will take.
  absl::Duration Expected(size_t run, int slices) const;
  // Returns what this run and all behind it will take.
  absl::Duration Left(size_t run, absl::Duration passed) const;
  // Takes note of what a run took that has ended.
  void Add(size_t run, absl::Duration loading, int slices, absl::Duration running);

 private:
  struct Costs {
    absl::Duration loading, slice;
    int runs = 0;  // of which this is the mean
  };
  Costs CostsOf(const CalibrationRun& run) const;
  absl::Duration TakenBy(size_t first, int slices) const;

  const std::vector<CalibrationRun> runs_;
  const absl::Duration budget_;
  double flops_per_sec_;
  const absl::Duration slice_;
  std::map<std::string, Costs> known_;  // by network
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_CALIBRATION_TIME_H_
