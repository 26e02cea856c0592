// What a training says of itself after its first steps: how long a step takes and was predicted to take, where the time
// goes, what takes most of it that need not be, and which plan would be faster.
#ifndef COLONNADE_CLI_TRAINING_VERDICT_H_
#define COLONNADE_CLI_TRAINING_VERDICT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "data/pipeline.h"
#include "engine/executor.h"
#include "engine/trace.h"
#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Some steps in a row.
struct MeasuredSteps {
  int64_t steps_done = 0;
  absl::Duration step;                     // the median of them
  std::vector<engine::Breakdown> devices;  // of a step; empty where the backend does not time tasks
  absl::Duration input_waited;             // of a step: how long the host waited for a batch
  double core_waited = 0;                  // how much of the time a thread of a device waited for a core, from 0 to 1
  std::string input_stage;                 // what the workers of the input do most: "decode"
};

enum class Cause {
  kCompute,        // nothing else takes a tenth of a step
  kSlowDevice,     // one device takes longer for its compute than the others would
  kInput,          // batches are not ready, or are copied while nothing else is done
  kCommunication,  // transfers that nothing hides
  kIdle,           // devices do nothing: launching
  kCores,          // threads of devices are ready to run, and no core is free
};
const char* Name(Cause cause);

struct Verdict {
  Cause cause = Cause::kCompute;
  double lost = 0;  // the share of a step that the cause takes, from 0 to 1; 0 for kCompute
  // For kSlowDevice: which device, and how many times as long as that of the others its compute takes.
  int device = -1;
  double times_as_long = 1;
  // Shares of a device's time, averaged over all devices. They add up to 1, or are all 0 where the time is not known.
  double compute = 0, communication = 0, input = 0, idle = 0;
};

// Finds the cause. `work` says how long each device's compute would take if all devices were alike, in any unit; empty:
// equally long.
Verdict Judge(const MeasuredSteps& measured, absl::Span<const double> work);

// A plan that the planner found on the calibrated profile.
struct FoundPlan {
  std::string name;
  int devices = 1;
  int searched_devices = 1;  // it is the best plan on at most as many devices
  absl::Duration step;
};

// Returns how far a prediction may be off, as a share: as far as the running plan's was, at least as far as most are.
double PredictionError(absl::Duration predicted, absl::Duration measured);
// Whether `plan` is faster than `predicted`, the step predicted for the running plan, by more than PredictionError.
bool IsFaster(const FoundPlan& plan, absl::Duration predicted, absl::Duration measured);

// Returns the verdict as "after 50 steps: …", one sentence in each line.
std::vector<std::string> VerdictText(const MeasuredSteps& measured, const Verdict& verdict,
                                     const std::optional<absl::Duration>& predicted);
std::string FoundPlanText(const FoundPlan& plan, absl::Duration predicted, absl::Duration measured);
nlohmann::ordered_json VerdictJson(const MeasuredSteps& measured, const Verdict& verdict,
                                   const std::optional<absl::Duration>& predicted, const std::optional<FoundPlan>& found);

// Collects MeasuredSteps while a run trains. One thread: that which trains.
class FirstSteps {
 public:
  // It is ready after `steps` steps. `executor` and `input` must outlive it.
  FirstSteps(const engine::Executor& executor, const data::Pipeline& input, int64_t steps)
      : executor_(executor), input_(input), steps_(steps) {}

  // To be called after each step, while the next may be in flight.
  void Add(const engine::TrainProgress& progress);
  void Interrupt();  // a pause: steps before and after it are not in a row
  bool is_ready() const { return done_ >= steps_; }
  // Returns nothing before some steps have been done in a row.
  std::optional<MeasuredSteps> Measured() const;

 private:
  struct Step {
    absl::Duration ended, input_waited;  // both since the run began
    std::vector<engine::TaskTime> times;
  };
  const engine::Executor& executor_;
  const data::Pipeline& input_;
  const int64_t steps_;
  int64_t done_ = 0;
  std::deque<Step> last_;
  // When the steps that are in a row began, and how long threads had waited for cores then.
  absl::Duration row_began_;
  std::map<int, absl::Duration> waits_before_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_VERDICT_H_
