// What the calibrated profile of the devices says of a training: how long a step takes, and which plan would be faster.
#ifndef COLONNADE_CLI_TRAINING_FORECAST_H_
#define COLONNADE_CLI_TRAINING_FORECAST_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/session/session.h"
#include "cli/training/verdict.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::cli {

struct Forecast {
  engine::Machine machine;
  partition::LowerOptions lower;
  partition::PlanSettings settings{};
  absl::Duration step;
  std::vector<double> compute_sec;  // of each device
};

// Returns what is wrong with a --machine that was named: an unknown one, or a file that is missing or no profile.
absl::Status CheckMachine(const ProfileFlags& flags, const BackendFlags& backend);

// Makes the forecast of the session on --machine, which must be a profile of the devices of `backend`: the calibrated one of
// this machine, or a file. FailedPrecondition says in one sentence why there is none and what gives it.
absl::StatusOr<Forecast> MakeForecast(const SessionFlags& flags, const Session& session, const std::string& backend);

// Searches for the best plan on the profile's devices, in a thread that gets only what time others leave.
class PlanSearch {
 public:
  // Throws std::system_error where the system gives no thread.
  PlanSearch(const Forecast& forecast, layers::LayerGraph graph, int devices);
  ~PlanSearch();  // stops it
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  bool is_over() const { return is_over_; }
  void AwaitUntil(absl::Time deadline) const;
  // REQUIRES: is_over(). Nothing where it failed or was stopped.
  const std::optional<FoundPlan>& found() const { return found_; }
  int devices() const { return devices_; }

 private:
  void Run();
  void Search();

  const engine::Machine machine_;
  const layers::LayerGraph graph_;
  const partition::LowerOptions lower_;
  const partition::PlanSettings settings_;
  const int devices_;
  std::atomic<bool> stop_{false}, is_over_{false};
  std::optional<FoundPlan> found_;  // before is_over_
  std::thread thread_;
};

// What a training says of itself after its first steps, as soon as it is known. One thread: that which trains.
class SelfReport {
 public:
  // All must outlive it. Without a forecast nothing is predicted, nor searched for.
  SelfReport(const Session& session, const absl::StatusOr<Forecast>& forecast, FirstSteps first_steps);

  void Add(const engine::TrainProgress& progress);  // after each step
  void Interrupt() { first_steps_.Interrupt(); }
  // At the end of the training: what is not said yet, the search for a plan included, if it ends soon.
  void Finish(absl::Duration elapsed);
  nlohmann::ordered_json Json() const;  // null where there were too few steps

 private:
  void SayVerdict(bool searches);
  void SayFoundPlan();

  const Session& session_;
  const absl::StatusOr<Forecast>& forecast_;
  const bool searches_;
  FirstSteps first_steps_;
  std::optional<MeasuredSteps> measured_;
  Verdict verdict_;
  std::unique_ptr<PlanSearch> search_;
  bool is_plan_said_ = false;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_FORECAST_H_
