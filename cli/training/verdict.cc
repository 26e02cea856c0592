#include "cli/training/verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "cpu/threads/core_waits.h"
#include "engine/statistics.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthNaming = 0.1;           // of a step
constexpr double kAlike = 1.2;                 // devices that differ by no more are alike: kernels and clocks vary as much
constexpr double kUsualError = 0.02;           // of predictions: docs/measured.md
constexpr size_t kMostKept = 16, kFewest = 3;  // steps in a row
constexpr size_t kMostEvents = 100'000;        // that are looked at, in all steps; what comes first goes

double Milliseconds(absl::Duration d) { return absl::ToDoubleMilliseconds(d); }

// What of a device's time goes where, as parts of a step.
struct Shares {
  double compute = 0, communication = 0, input = 0, idle = 0;
};

Shares SharesOf(const engine::Breakdown& device, absl::Duration input_waited) {
  const absl::Duration total = device.compute + device.exposed_communication + device.input_wait + device.idle;
  if (total <= absl::ZeroDuration()) return {};
  // Where the host waits for a batch, devices get nothing to do.
  const absl::Duration starved = std::min(device.idle, input_waited);
  return {.compute = absl::FDivDuration(device.compute, total),
          .communication = absl::FDivDuration(device.exposed_communication, total),
          .input = absl::FDivDuration(device.input_wait + starved, total),
          .idle = absl::FDivDuration(device.idle - starved, total)};
}

// Names the slowest device, if it is slower than the others.
void JudgeDevices(const MeasuredSteps& measured, absl::Span<const double> work, const std::vector<Shares>& shares,
                  Verdict& verdict) {
  const size_t devices = shares.size();
  if (devices < 2) return;
  std::vector<double> pace;  // time for a unit of work
  for (size_t d = 0; d < devices; ++d) {
    const double units = work.empty() ? 1 : work[d];
    pace.push_back(units > 0 ? Milliseconds(measured.devices[d].compute) / units : 0);
  }
  const auto slowest = std::max_element(pace.begin(), pace.end());
  std::vector<double> others = pace;
  others.erase(others.begin() + (slowest - pace.begin()));
  const double usual = engine::Median(std::move(others));
  if (usual <= 0 || *slowest <= usual * kAlike) return;
  const double times = *slowest / usual, lost = shares[slowest - pace.begin()].compute * (1 - 1 / times);
  if (lost <= std::max(verdict.lost, kWorthNaming)) return;
  verdict.cause = Cause::kSlowDevice;
  verdict.lost = lost;
  verdict.device = static_cast<int>(slowest - pace.begin());
  verdict.times_as_long = times;
}

std::string CauseText(const MeasuredSteps& measured, const Verdict& v) {
  const double percent = 100 * v.lost;
  const bool of_many = measured.devices.size() > 1;
  switch (v.cause) {
    case Cause::kSlowDevice:
      return absl::StrFormat(
          "device %d is slower than the others: its compute takes %.1f times as long as theirs, which is %.0f %% of a step",
          v.device, v.times_as_long, percent);
    case Cause::kInput:
      return absl::StrFormat("the input is too slow: %s %.0f %% of a step for it%s; see --data-threads and io-bench",
                             measured.devices.empty() ? "devices wait"
                             : of_many                ? "every device waits at least"
                                                      : "the device waits",
                             percent,
                             measured.input_stage.empty() ? "" : ", most of whose work is to " + measured.input_stage);
    case Cause::kCommunication:
      return absl::StrFormat(
          "exposed communication takes %s%.0f %% of a step%s; a larger --batch or another --plan moves less",
          of_many ? "at least " : "", percent, of_many ? " on every device" : "");
    case Cause::kIdle:
      return absl::StrFormat(
          "%s %.0f %% of a step: tasks are too short for what launching them takes; a larger --batch makes them longer",
          of_many ? "every device is idle for at least" : "the device is idle for", percent);
    case Cause::kCores:
      return absl::StrFormat(
          "a device's thread waits for a core for %.0f %% of the time: devices have more threads than there are cores, or "
          "other programs run on them; fewer --devices or --threads-per-device may be faster",
          percent);
    case Cause::kCompute:
      break;
  }
  return "nothing but compute takes a tenth of a step on every device";
}

}  // namespace

const char* Name(Cause cause) {
  switch (cause) {
    case Cause::kCompute:
      return "compute";
    case Cause::kSlowDevice:
      return "slow device";
    case Cause::kInput:
      return "input";
    case Cause::kCommunication:
      return "communication";
    case Cause::kIdle:
      return "idle";
    case Cause::kCores:
      return "cores";
  }
  return "?";
}

Verdict Judge(const MeasuredSteps& measured, absl::Span<const double> work) {
  Verdict verdict;
  std::vector<Shares> shares;
  for (const engine::Breakdown& device : measured.devices) shares.push_back(SharesOf(device, measured.input_waited));
  // What all devices lose: one that waits for others loses more, but not by itself.
  Shares least{1, 1, 1, 1};
  for (const Shares& s : shares) {
    verdict.compute += s.compute / static_cast<double>(shares.size());
    verdict.communication += s.communication / static_cast<double>(shares.size());
    verdict.input += s.input / static_cast<double>(shares.size());
    verdict.idle += s.idle / static_cast<double>(shares.size());
    least = {std::min(least.compute, s.compute), std::min(least.communication, s.communication),
             std::min(least.input, s.input), std::min(least.idle, s.idle)};
  }
  if (shares.empty()) {
    least = {.input = measured.step > absl::ZeroDuration() ? absl::FDivDuration(measured.input_waited, measured.step) : 0};
  }
  for (const auto& [lost, cause] :
       {std::pair(least.input, Cause::kInput), std::pair(least.communication, Cause::kCommunication),
        std::pair(least.idle, Cause::kIdle)}) {
    if (lost < std::max(verdict.lost, kWorthNaming)) continue;
    verdict.lost = std::min(lost, 1.0);
    verdict.cause = cause;
  }
  JudgeDevices(measured, work, shares, verdict);
  // A device that waits for a core is slow, and others wait for it: what is lost half by this is named by it.
  if (measured.core_waited >= std::max(verdict.lost / 2, kWorthNaming)) {
    verdict.cause = Cause::kCores;
    verdict.lost = measured.core_waited;
    verdict.device = -1;
    verdict.times_as_long = 1;
  }
  return verdict;
}

double PredictionError(absl::Duration predicted, absl::Duration measured) {
  return std::max(std::abs(absl::FDivDuration(predicted, measured) - 1), kUsualError);
}

bool IsFaster(const FoundPlan& plan, absl::Duration predicted, absl::Duration measured) {
  return absl::FDivDuration(plan.step, predicted) < 1 - PredictionError(predicted, measured);
}

std::vector<std::string> VerdictText(const MeasuredSteps& measured, const Verdict& v,
                                     const std::optional<absl::Duration>& predicted) {
  std::string first =
      absl::StrFormat("after %s: %.2f ms a step", base::Counted(measured.steps_done, "step"), Milliseconds(measured.step));
  if (predicted.has_value()) {
    absl::StrAppendFormat(&first, ", predicted %.2f ms (%+.0f %%)", Milliseconds(*predicted),
                          100 * (absl::FDivDuration(*predicted, measured.step) - 1));
  }
  if (!measured.devices.empty()) {
    absl::StrAppendFormat(&first, "; compute %.0f %%, exposed communication %.0f %%, input %.0f %%, idle %.0f %%",
                          100 * v.compute, 100 * v.communication, 100 * v.input, 100 * v.idle);
  } else if (v.cause == Cause::kCompute) {
    return {first};
  }
  return {first, CauseText(measured, v)};
}

std::string FoundPlanText(const FoundPlan& plan, absl::Duration predicted, absl::Duration measured) {
  if (!IsFaster(plan, predicted, measured)) {
    return absl::StrFormat(
        "no plan on up to %s is predicted to be faster by more than the error of predictions here, %.0f %%",
        base::Counted(plan.searched_devices, "device"), 100 * PredictionError(predicted, measured));
  }
  return absl::StrFormat(
      "plan %s on %s is predicted to take %.2f ms a step, %.0f %% less than this one: --plan=auto --devices=%d", plan.name,
      base::Counted(plan.devices, "device"), Milliseconds(plan.step), 100 * (1 - absl::FDivDuration(plan.step, predicted)),
      plan.searched_devices);
}

Json VerdictJson(const MeasuredSteps& measured, const Verdict& v, const std::optional<absl::Duration>& predicted,
                 const std::optional<FoundPlan>& found) {
  const bool is_known = !measured.devices.empty();
  Json json = {
      {"steps", measured.steps_done},
      {"step_ms", Milliseconds(measured.step)},
      {"predicted_ms", predicted.has_value() ? Json(Milliseconds(*predicted)) : Json()},
      {"shares",
       is_known
           ? Json{{"compute", v.compute}, {"exposed_communication", v.communication}, {"input", v.input}, {"idle", v.idle}}
           : Json()},
      {"cause", Name(v.cause)},
      {"lost", v.lost},
      {"device", v.device < 0 ? Json() : Json(v.device)},
      {"times_as_long", v.device < 0 ? Json() : Json(v.times_as_long)},
      {"faster_plan", nullptr}};
  if (found.has_value() && predicted.has_value() && IsFaster(*found, *predicted, measured.step)) {
    json["faster_plan"] = {{"plan", found->name}, {"devices", found->devices}, {"predicted_ms", Milliseconds(found->step)}};
  }
  return json;
}

void FirstSteps::Add(const engine::TrainProgress& progress) {
  if (is_ready()) return;
  ++done_;
  const size_t tasks = std::max<size_t>(executor_.program().tasks.size(), 1);
  const size_t kept = std::clamp(kMostEvents / tasks, kFewest, kMostKept);
  if (last_.empty()) {
    row_began_ = progress.elapsed;
    waits_before_ = cpu::CoreWaits();
  }
  last_.push_back({progress.elapsed, input_.Stages().waited, executor_.LatestTimes()});
  if (last_.size() > kept) last_.pop_front();
}

void FirstSteps::Interrupt() {
  if (!is_ready()) last_.clear();
}

std::optional<MeasuredSteps> FirstSteps::Measured() const {
  if (last_.size() < kFewest) return std::nullopt;
  MeasuredSteps measured{.steps_done = done_};
  std::vector<double> seconds;
  for (size_t s = 1; s < last_.size(); ++s) seconds.push_back(absl::ToDoubleSeconds(last_[s].ended - last_[s - 1].ended));
  measured.step = absl::Seconds(engine::Median(std::move(seconds)));
  measured.input_waited = (last_.back().input_waited - last_.front().input_waited) / (last_.size() - 1);
  const absl::Duration row = last_.back().ended - row_began_;
  if (row > absl::ZeroDuration()) {
    measured.core_waited = std::min(absl::FDivDuration(cpu::LongestWait(waits_before_, cpu::CoreWaits()), row), 1.0);
  }
  const data::StageTimes stages = input_.Stages();
  if (stages.Working() > absl::ZeroDuration()) {
    const auto by_time = [&](data::Stage a, data::Stage b) { return stages.of(a) < stages.of(b); };
    measured.input_stage = data::Name(std::max({data::Stage::kRead, data::Stage::kDecode, data::Stage::kAugment}, by_time));
  }
  std::vector<std::vector<engine::TaskTime>> times;
  for (const Step& step : last_) times.push_back(step.times);
  const program::Program& program = executor_.program();
  measured.devices = engine::BreakDown(engine::MakeTrace(program, times), program.device_count);
  return measured;
}

}  // namespace colonnade::cli
