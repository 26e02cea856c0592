// Measures this machine as a profile: its kernels at the shapes of some networks, its transfers, its overheads.
#ifndef COLONNADE_CLI_CALIBRATE_H_
#define COLONNADE_CLI_CALIBRATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/machine.h"
#include "layers/graph.h"

namespace colonnade::cli {

struct CalibrationCase {
  layers::LayerGraph graph;
  std::vector<int64_t> batches;
};

struct CalibrationOptions {
  std::vector<CalibrationCase> cases;
  int devices = 2;  // measures with 1 to so many at work
  int steps = 5;    // of each Program, after two for warming up
  std::function<void(int done, int all)> on_run;
};

// Runs the Programs of every case under single, data, model and owt with nothing overlapped, and takes from each task's mean
// time, the longest tenth left out, the rate of its op at its shape. Transfers: the time of each exchange and collective
// from when both sides were there, and a sweep of sizes. Launch: the median gap between two tasks of a lane. All of origin
// "measured".
absl::StatusOr<engine::Machine> CalibrateThisMachine(const CalibrationOptions& options);

// Programs that move `bytes` from or to each of `devices` once, and how long it took: the median of `repeats`, from when all
// sides were there. The result of each transfer is compared with what it must be first; Internal where one is wrong.
struct TransferTime {
  std::string what;  // "exchange", "all_gather", …
  int members = 2;
  double bytes = 0;  // of one member's operand
  double seconds = 0;
};
absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_CALIBRATE_H_
