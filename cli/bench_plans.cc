// `bench plans`: every named plan of a network on this machine, or those that are asked for, and the planner's choice, in
// turn.
//
// All Programs stay loaded and run slice by slice, so that they meet the same changes of the machine's speed. With
// --deterministic each plan runs twice, which shows what that costs. Step times are means without the longest tenth; the
// spread is that of the slices.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "cli/command_line/errors.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/spread.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "cli/session/session.h"
#include "cpu/backend.h"
#include "engine/machine.h"
#include "engine/statistics.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tools/calibration.h"
#include "tools/host_memory.h"
#include "tools/measure.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlansFlags {
  PlansFlags() { backend.name = "cpu"; }
  std::string model;
  std::vector<std::string> plans;  // empty: all
  int64_t batch = 32;
  int devices = 2;
  ProfileFlags profile;
  BackendFlags backend;
  int slices = 10;
  bool json = false;
};

constexpr absl::Duration kTimeOfSlice = absl::Milliseconds(100);

struct TimedPlan {
  std::string name;
  int devices = 1;
  bool deterministic = false;
  double predicted_ms = 0;
  std::unique_ptr<tools::StepMeter> meter;
  std::vector<double> slices_ms;

  std::string label() const { return deterministic ? name + ", deterministic" : name; }
  double measured_ms() const { return 1e3 * engine::TrimmedMean(meter->step_seconds()); }

  absl::Status RunSlice() {
    const size_t before = meter->step_seconds().size();
    RETURN_IF_ERROR(meter->Run(1, kTimeOfSlice));
    slices_ms.push_back(1e3 * engine::TrimmedMean(absl::MakeSpan(meter->step_seconds()).subspan(before)));
    return absl::OkStatus();
  }
};

// A plan that the network or the batch does not have.
struct LeftOutPlan {
  std::string plan, why;
};

struct RaceOfPlans {
  engine::Machine machine;
  std::vector<LeftOutPlan> left_out;
  std::vector<TimedPlan> timed;
};

absl::Status LoadPlan(const std::string& name, const partition::Plan& plan, const layers::LayerGraph& graph,
                      const partition::LowerOptions& lower, const engine::Machine& machine, const BackendFlags& flags,
                      std::vector<TimedPlan>& timed_plans) {
  ASSIGN_OR_RETURN(tools::Predicted predicted,
                   tools::Predict(machine, graph, plan, lower, cpu::KernelsFromName(flags.kernels)));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, plan.mesh.device_count(), /*threads_per_device=*/0));
  if (backend->name() == "cpu") RETURN_IF_ERROR(FieldAsFlag(tools::CheckHostMemory(graph, plan, lower), "batch"));
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                   tools::StepMeter::Create(graph, plan, lower, std::move(backend)));
  timed_plans.push_back({name, plan.mesh.device_count(), flags.deterministic,
                         absl::ToDoubleMilliseconds(predicted.simulation.step), std::move(meter)});
  return absl::OkStatus();
}

bool IsAskedFor(const PlansFlags& flags, absl::string_view plan) {
  return flags.plans.empty() ? flags.devices > 1 || plan == "single" : absl::c_linear_search(flags.plans, plan);
}

// The named plans that are asked for, and the planner's. Where all are, those that the network or the batch does not have go
// to `left_out`.
absl::StatusOr<std::vector<std::pair<std::string, partition::Plan>>> PlansOf(const PlansFlags& flags,
                                                                             const layers::LayerGraph& graph,
                                                                             const partition::LowerOptions& lower,
                                                                             const engine::Machine& machine,
                                                                             std::vector<LeftOutPlan>& left_out) {
  std::vector<std::pair<std::string, partition::Plan>> plans;
  for (const std::string& name : partition::PlanNames()) {
    if (!IsAskedFor(flags, name)) continue;
    const int devices = name == "single" ? 1 : flags.devices;
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(name, graph, {.devices = devices, .global_batch = flags.batch});
    if (plan.ok()) {
      plans.emplace_back(name, *std::move(plan));
    } else if (!flags.plans.empty() || !absl::IsFailedPrecondition(plan.status())) {
      return plan.status();
    } else {
      left_out.push_back({name, std::string(plan.status().message())});
      Say(absl::StrFormat("plan %s is left out: %s", name, left_out.back().why));
    }
  }
  if (!IsAskedFor(flags, partition::kAutoPlan)) return plans;
  const absl::StatusOr<std::vector<partition::Candidate>> found = tools::SearchPlansOn(machine, graph, lower, flags.devices);
  if (!found.ok()) return FieldAsFlag(found.status(), "devices");
  plans.emplace_back(partition::kAutoPlan, found->front().plan);
  return plans;
}

absl::StatusOr<RaceOfPlans> TimePlans(const PlansFlags& flags) {
  RaceOfPlans race;
  ASSIGN_OR_RETURN(race.machine, OpenMachine(flags.profile, flags.backend));
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(flags.model, {}));
  WarnOfFit(race.machine, graph);
  const partition::LowerOptions lower{
      .global_batch = flags.batch, .dtype = DTypeOf(flags.backend), .pixels = tools::PixelsFromBytes(graph)};
  ASSIGN_OR_RETURN(const auto plans, PlansOf(flags, graph, lower, race.machine, race.left_out));
  std::optional<CountProgress> loading(std::in_place, "loading:");
  int64_t loaded = 0;
  for (const auto& [name, plan] : plans) {
    loading->Show(loaded++, static_cast<int64_t>(plans.size()), absl::StrCat(" plans, ", name));
    BackendFlags own = flags.backend;
    own.deterministic = false;
    RETURN_IF_ERROR(LoadPlan(name, plan, graph, lower, race.machine, own, race.timed));
    if (!flags.backend.deterministic) continue;
    RETURN_IF_ERROR(LoadPlan(name, plan, graph, lower, race.machine, flags.backend, race.timed));
  }
  loading.reset();
  CountProgress progress("timing:");
  int64_t done = 0;
  const int64_t all = flags.slices * static_cast<int64_t>(race.timed.size());
  for (int slice = 0; slice < flags.slices; ++slice) {
    for (TimedPlan& timed : race.timed) {
      progress.Show(done++, all, absl::StrCat(" slices, ", timed.label()));
      RETURN_IF_ERROR(timed.RunSlice());
    }
  }
  return race;
}

Json RaceJson(const PlansFlags& flags, const RaceOfPlans& race) {
  Json json = {{"model", flags.model},
               {"global_batch", flags.batch},
               {"backend", flags.backend.name},
               {"kernels", flags.backend.name == "cuda" ? Json() : Json(flags.backend.kernels)},
               {"dtype", flags.backend.dtype},
               {"machine", race.machine.name},
               {"machine_file", MachineFileJson(race.machine)},
               {"left_out", Json::array()},
               {"plans", Json::array()}};
  for (const LeftOutPlan& left_out : race.left_out)
    json["left_out"].push_back({{"plan", left_out.plan}, {"why", left_out.why}});
  for (const TimedPlan& timed : race.timed) {
    json["plans"].push_back({{"plan", timed.name},
                             {"devices", timed.devices},
                             {"deterministic", timed.deterministic},
                             {"predicted_ms", timed.predicted_ms},
                             {"measured_ms", timed.measured_ms()},
                             {"spread", SpreadJson(timed.slices_ms)},
                             {"images_per_s", 1e3 * static_cast<double>(flags.batch) / timed.measured_ms()}});
  }
  return json;
}

void PrintTimedPlans(const PlansFlags& flags, const std::vector<TimedPlan>& timed_plans) {
  PrintLine(absl::StrFormat("%-22s %7s %14s %14s %8s %10s", "plan", "devices", "predicted ms", "measured ms", "spread",
                            "images/s"));
  for (const TimedPlan& timed : timed_plans) {
    PrintLine(absl::StrFormat("%s %7d %14.2f %14.2f %8s %10.1f", PadRight(timed.label(), 22), timed.devices,
                              timed.predicted_ms, timed.measured_ms(), SpreadText(timed.slices_ms),
                              1e3 * static_cast<double>(flags.batch) / timed.measured_ms()));
  }
}

absl::Status RunBenchPlans(const PlansFlags& flags) {
  if (flags.backend.deterministic && flags.backend.name != "cuda") {
    return absl::FailedPreconditionError("--deterministic: expected --backend=cuda; on the CPU every run is deterministic");
  }
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  ASSIGN_OR_RETURN(const RaceOfPlans race, TimePlans(flags));
  for (const TimedPlan& timed : race.timed) {
    for (const std::string& note : timed.meter->Notes()) Warn(absl::StrCat(timed.label(), ": ", note));
  }
  if (flags.json) {
    PrintJson(RaceJson(flags, race));
  } else {
    PrintTimedPlans(flags, race.timed);
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddBenchPlans(CLI::App& bench) {
  CLI::App* plans = bench.add_subcommand(
      "plans", "Every named plan of a network and the planner's choice, in turn: predicted and measured, with the spread.");
  const auto flags = std::make_shared<PlansFlags>();
  plans->add_option("PLAN", flags->plans, "the plans that are timed, by name (default: all)")
      ->check(CLI::IsMember(partition::PlanNamesAndAuto()));
  plans->add_option("--model", flags->model, "network of the zoo")->type_name("MODEL")->required();
  plans->add_option("--batch", flags->batch, "global batch")
      ->check(CLI::Range(int64_t{1}, kMostBatch))
      ->capture_default_str();
  plans->add_option("--devices", flags->devices, "devices of all plans but single")
      ->check(CLI::Range(1, tools::kMostDevicesHere))
      ->capture_default_str();
  AddProfileFlag(*plans, flags->profile);
  AddMeasuringFlags(*plans, flags->backend);
  plans->add_flag("--deterministic", flags->backend.deterministic,
                  "on GPUs: every plan also with deterministic kernels and sums");
  plans->add_option("--slices", flags->slices, "turns that each plan gets, of 0.1 s or one step")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddJsonFlag(*plans, flags->json);
  plans->footer(
      "Examples:\n  colonnade bench plans --model=alexnet2012 --machine=cpu-2core\n"
      "  colonnade bench plans data owt --model=alexnet --devices=2\n"
      "  colonnade bench plans --model=alexnet --batch=256 --devices=4 --backend=cuda --machine=hgx-h100 --json");
  return {plans, [=] { return RunBenchPlans(*flags); }};
}

}  // namespace colonnade::cli
