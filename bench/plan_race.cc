// Every plan of one network on this machine, the planner's choice among them, in turn: predicted and measured.
//
// With --deterministic each plan enters twice, which shows what that costs. All Programs stay loaded and run slice by slice,
// so that they meet the same moods of the machine. Step times are means without the longest tenth.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/command_line.h"
#include "cli/session.h"
#include "engine/machine.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/status_macros.h"
#include "tools/measure.h"
#include "tools/planning.h"

namespace {

using namespace colonnade;

constexpr absl::Duration kSliceTime = absl::Milliseconds(100);

struct Racer {
  std::string name;
  double predicted_ms = 0;
  std::unique_ptr<tools::StepMeter> meter;
};

absl::Status Enter(const std::string& name, const partition::Plan& plan, const layers::LayerGraph& graph,
                   const partition::LowerOptions& lower, const engine::Machine& machine, const cli::Flags& flags,
                   std::vector<Racer>& racers) {
  ASSIGN_OR_RETURN(tools::Predicted predicted, tools::Predict(machine, graph, plan, lower));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   cli::OpenBackend(flags, plan.mesh.device_count(), /*threads_per_device=*/0));
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                   tools::StepMeter::Create(graph, plan, lower, std::move(backend)));
  racers.push_back({name, absl::ToDoubleMilliseconds(predicted.simulation.step), std::move(meter)});
  return absl::OkStatus();
}

absl::Status Main(const cli::Flags& flags, int slices) {
  if (flags.deterministic && flags.backend != "cuda") {
    return absl::FailedPreconditionError("--deterministic: expected --backend=cuda; on the CPU every run is deterministic");
  }
  ASSIGN_OR_RETURN(engine::Machine machine, cli::OpenMachine(flags));
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(flags.model, {}));
  const partition::LowerOptions lower{.global_batch = flags.batch, .dtype = cli::DTypeOf(flags)};
  std::vector<std::pair<std::string, partition::Plan>> plans;
  const auto add_named = [&](const char* name, int devices) {
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(name, graph, {.devices = devices, .global_batch = flags.batch});
    if (plan.ok()) plans.emplace_back(name, *std::move(plan));  // else it does not split so
  };
  add_named("single", 1);
  if (flags.devices > 1) {
    for (const char* name : {"data", "model", "hybrid", "owt"}) add_named(name, flags.devices);
    ASSIGN_OR_RETURN(std::vector<partition::Candidate> found, tools::SearchPlansOn(machine, graph, lower, flags.devices));
    plans.emplace_back("auto", found.front().plan);
  }
  std::vector<Racer> racers;
  for (const auto& [name, plan] : plans) {
    cli::Flags own = flags;
    own.deterministic = false;
    RETURN_IF_ERROR(Enter(name, plan, graph, lower, machine, own, racers));
    if (!flags.deterministic) continue;
    RETURN_IF_ERROR(Enter(name + ", deterministic", plan, graph, lower, machine, flags, racers));
  }
  for (int slice = 0; slice < slices; ++slice) {
    for (Racer& racer : racers) {
      RETURN_IF_ERROR(racer.meter->Run(1, kSliceTime));
    }
  }
  std::printf("%-22s %14s %14s\n", "plan", "predicted ms", "measured ms");
  for (const Racer& racer : racers) {
    const double measured_ms = 1e3 * tools::TrimmedMean(racer.meter->step_seconds());
    std::printf("%s\n", absl::StrFormat("%-22s %14.2f %14.2f", racer.name, racer.predicted_ms, measured_ms).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  cli::Flags flags{.batch = 32, .devices = 2, .backend = "cpu"};
  int slices = 10;
  CLI::App app("Every plan of a model on this machine, the planner's choice among them: predicted and measured step times.",
               "plan_race");
  app.add_option("--model", flags.model, "model of the zoo")->required();
  app.add_option("--batch", flags.batch, "global batch")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--devices", flags.devices)->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--machine", flags.machine, "profile: a name, a file, or local")->capture_default_str();
  cli::AddMeasuringFlags(app, flags);
  app.add_flag("--deterministic", flags.deterministic, "on GPUs: every plan also with deterministic kernels and sums");
  app.add_option("--slices", slices, "of 0.1 s or one step, of every plan")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return bench::Run(app, argc, argv, [&] { return Main(flags, slices); });
}
