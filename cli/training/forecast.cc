#include "cli/training/forecast.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "base/with_context.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cpu/backend.h"
#include "engine/simulator.h"
#include "partition/planner.h"
#include "tools/machines.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

constexpr double kWaitedPart = 0.02;  // of a training, for the search at its end
constexpr absl::Duration kMostWaited = absl::Seconds(2), kWorthWaiting = absl::Milliseconds(100);

absl::Status None(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("no predicted times: ", why));
}

// Whether --machine is a profile of the devices that train.
absl::Status CheckProfile(const SessionFlags& flags, const Session& session, const std::string& backend) {
  const tools::KernelChoice choice = KernelsOf(flags.backend);
  if (backend == "cpu" && choice.kernels == "reference") return None("no profile is of --kernels=reference");
  std::error_code ignored;
  if (flags.profile.machine == "local") {
    if (backend != "cpu") return None("`colonnade calibrate --backend=cuda --out=FILE` and --machine=FILE give them");
    if (!std::filesystem::exists(tools::LocalMachinePath(choice), ignored)) {
      return None(absl::StrCat("`", tools::CalibrationOf(choice), "` measures this machine and gives them"));
    }
  } else if (!std::filesystem::exists(flags.profile.machine, ignored)) {
    return None(absl::StrFormat("--machine=%s is another machine than this one", flags.profile.machine));
  }
  if (backend != "cpu") return absl::OkStatus();
  const int threads = cpu::DefaultThreadsPerDevice(session.plan.mesh.device_count());
  if (session.threads_per_device == threads) return absl::OkStatus();
  return None(absl::StrFormat("profiles are of --threads-per-device=%d here", threads));
}

}  // namespace

absl::Status CheckMachine(const ProfileFlags& flags, const BackendFlags& backend) {
  if (flags.machine == "local") return absl::OkStatus();
  const absl::Status opened = tools::OpenMachine(flags.machine, /*notes=*/nullptr, KernelsOf(backend)).status();
  if (!absl::IsFailedPrecondition(opened)) return opened;
  return base::WithContext(opened, "--machine");
}

absl::StatusOr<Forecast> MakeForecast(const SessionFlags& flags, const Session& session, const std::string& backend) {
  RETURN_IF_ERROR(CheckProfile(flags, session, backend));
  ASSIGN_OR_RETURN(engine::Machine machine,
                   tools::OpenMachine(flags.profile.machine, /*notes=*/nullptr, KernelsOf(flags.backend)));
  const bool is_of_cpu = machine.cores.value > 0;
  if (is_of_cpu != (backend == "cpu")) {
    const char* kind = is_of_cpu ? "is of CPU devices, this run is on GPUs"
                                 : "has no \"cores\", which CPU devices share; this run is on CPU devices";
    return None(absl::StrFormat("machine %s %s", machine.Title(), kind));
  }
  if (const std::string warning = tools::KernelWarning(machine, KernelsOf(flags.backend)); !warning.empty())
    return None(warning);
  const absl::Status enough = tools::CheckDevices(machine, session.plan.mesh.device_count());
  if (!enough.ok()) {
    return None(absl::StrFormat("the profile is of %s, this run has %d; `colonnade calibrate --devices=%d` gives them",
                                base::Counted(machine.device_count(), "device"), session.plan.mesh.device_count(),
                                session.plan.mesh.device_count()));
  }
  WarnOfFit(machine, session.graph);
  Forecast forecast{.machine = std::move(machine),
                    .lower = LowerOptionsOf(flags, session, program::Mode::kTrain),
                    .settings = PlanSettingsOf(flags.plan)};
  ASSIGN_OR_RETURN(const program::RepresentativeProgram lowered,
                   tools::LowerRepresentativesOn(forecast.machine, session.graph, session.plan, forecast.lower));
  ASSIGN_OR_RETURN(const engine::Simulation simulation, engine::Simulate(lowered, forecast.machine, {.memory = false}));
  forecast.step = simulation.step;
  for (const engine::SimulatedDevice& device : simulation.devices) {
    forecast.compute_sec.push_back(absl::ToDoubleSeconds(device.compute));
  }
  return forecast;
}

PlanSearch::PlanSearch(const Forecast& forecast, layers::LayerGraph graph, int devices)
    : machine_(forecast.machine),
      graph_(std::move(graph)),
      lower_(forecast.lower),
      settings_(forecast.settings),
      devices_(devices),
      thread_([this] { Run(); }) {}

PlanSearch::~PlanSearch() {
  stop_ = true;
  thread_.join();
}

void PlanSearch::Run() {
  // Where this is refused, the search takes its share as any other thread.
  const sched_param idle{};
  (void)::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &idle);
  try {
    Search();
  } catch (const std::exception&) {  // the training goes on without: of memory, it may have enough
  }
  is_over_ = true;
}

void PlanSearch::Search() {
  const absl::StatusOr<std::vector<partition::Candidate>> found =
      tools::SearchPlansOn(machine_, graph_, lower_, devices_, {.settings = settings_, .stop = &stop_});
  if (found.ok() && found->front().fits) {
    const partition::Candidate& best = found->front();
    found_ = FoundPlan{.name = best.plan.name,
                       .devices = best.plan.mesh.device_count(),
                       .searched_devices = devices_,
                       .step = absl::Seconds(best.judgement.step_sec)};
  }
}

void PlanSearch::AwaitUntil(absl::Time deadline) const {
  while (!is_over_ && base::SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(10));
}

SelfReport::SelfReport(const Session& session, const absl::StatusOr<Forecast>& forecast, FirstSteps first_steps)
    : session_(session),
      forecast_(forecast),
      searches_(forecast.ok() && !session.plan_was_searched),
      first_steps_(std::move(first_steps)) {}

void SelfReport::Add(const engine::TrainProgress& progress) {
  const bool was_ready = first_steps_.is_ready();
  first_steps_.Add(progress);
  if (!was_ready && first_steps_.is_ready()) SayVerdict(searches_);
  if (search_ != nullptr && search_->is_over()) SayFoundPlan();
}

void SelfReport::SayVerdict(bool searches) {
  measured_ = first_steps_.Measured();
  if (!measured_.has_value()) return;
  verdict_ = Judge(*measured_, forecast_.ok() ? forecast_->compute_sec : std::vector<double>());
  const std::optional<absl::Duration> predicted = forecast_.ok() ? std::optional(forecast_->step) : std::nullopt;
  for (const std::string& line : VerdictText(*measured_, verdict_, predicted)) Say(line);
  if (!searches) return;
  const int devices = std::max(session_.plan.mesh.device_count(), forecast_->machine.device_count());
  try {
    search_ = std::make_unique<PlanSearch>(*forecast_, session_.graph, devices);
  } catch (const std::exception& error) {  // no thread, or no memory
    Say(absl::StrCat("no faster plan is searched for: ", error.what()));
  }
}

void SelfReport::SayFoundPlan() {
  if (std::exchange(is_plan_said_, true) || !search_->found().has_value()) return;
  Say(FoundPlanText(*search_->found(), forecast_->step, measured_->step));
}

void SelfReport::Finish(absl::Duration elapsed) {
  const absl::Duration wait = std::min(elapsed * kWaitedPart, kMostWaited);
  if (!measured_.has_value()) SayVerdict(searches_ && wait >= kWorthWaiting);
  if (search_ == nullptr || is_plan_said_) return;
  search_->AwaitUntil(base::SteadyNow() + wait);
  if (search_->is_over()) return SayFoundPlan();
  if (wait < kWorthWaiting) return;
  Say(absl::StrFormat("the search for a faster plan had too little time; `colonnade plan --plan=auto --devices=%d` does it",
                      search_->devices()));
}

nlohmann::ordered_json SelfReport::Json() const {
  if (!measured_.has_value()) return nullptr;
  const bool is_found = search_ != nullptr && search_->is_over();
  return VerdictJson(*measured_, verdict_, forecast_.ok() ? std::optional(forecast_->step) : std::nullopt,
                     is_found ? search_->found() : std::nullopt);
}

}  // namespace colonnade::cli
