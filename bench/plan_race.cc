// Every plan of one network on this machine, the planner's choice among them, in turn: predicted and measured.
//
//   plan_race MODEL BATCH DEVICES MACHINE.json [slices]
//
// All Programs stay loaded and run slice by slice, so that they meet the same moods of the machine. Step times are means
// without the longest tenth.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/measure.h"
#include "cli/planning.h"
#include "engine/file.h"
#include "engine/machine.h"
#include "models/models.h"
#include "partition/named_plans.h"

namespace {

using namespace colonnade;

constexpr absl::Duration kSliceTime = absl::Milliseconds(100);

struct Racer {
  std::string name;
  double predicted_ms = 0;
  std::unique_ptr<cli::StepMeter> meter;
};

absl::Status Enter(const std::string& name, const partition::Plan& plan, const layers::LayerGraph& graph,
                   const partition::LowerOptions& lower, const engine::Machine& machine, std::vector<Racer>& racers) {
  absl::StatusOr<cli::Predicted> predicted = cli::Predict(machine, graph, plan, lower);
  if (!predicted.ok()) return predicted.status();
  absl::StatusOr<std::unique_ptr<cli::StepMeter>> meter = cli::StepMeter::Create(graph, plan, lower);
  if (!meter.ok()) return meter.status();
  racers.push_back({name, absl::ToDoubleMilliseconds(predicted->simulation.step), *std::move(meter)});
  return absl::OkStatus();
}

absl::Status Main(const std::string& model, int64_t batch, int devices, const std::string& profile, int slices) {
  absl::StatusOr<std::string> json = engine::ReadFile(profile);
  if (!json.ok()) return json.status();
  absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(*json);
  if (!machine.ok()) return machine.status();
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(model, {});
  if (!graph.ok()) return graph.status();
  const partition::LowerOptions lower{.global_batch = batch};
  std::vector<Racer> racers;
  for (const char* name : {"single", "data", "model", "hybrid", "owt"}) {
    const int of = std::string(name) == "single" ? 1 : devices;
    absl::StatusOr<partition::Plan> plan = partition::NamedPlan(name, *graph, {.devices = of, .global_batch = batch});
    if (!plan.ok()) continue;  // it does not split so
    if (absl::Status s = Enter(name, *plan, *graph, lower, *machine, racers); !s.ok()) return s;
  }
  absl::StatusOr<std::vector<partition::Candidate>> found = cli::SearchPlansOn(*machine, *graph, lower, devices);
  if (!found.ok()) return found.status();
  if (absl::Status s = Enter("auto", found->front().plan, *graph, lower, *machine, racers); !s.ok()) return s;
  for (int slice = 0; slice < slices; ++slice) {
    for (Racer& racer : racers) {
      if (absl::Status s = racer.meter->Run(1, kSliceTime); !s.ok()) return s;
    }
  }
  std::printf("%-8s %14s %14s\n", "plan", "predicted ms", "measured ms");
  for (const Racer& racer : racers) {
    const double measured_ms = 1e3 * cli::TrimmedMean(racer.meter->step_seconds());
    std::printf("%s\n", absl::StrFormat("%-8s %14.2f %14.2f", racer.name, racer.predicted_ms, measured_ms).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: plan_race MODEL BATCH DEVICES MACHINE.json [slices]\n");
    return 2;
  }
  const absl::Status status =
      Main(argv[1], std::atoll(argv[2]), std::atoi(argv[3]), argv[4], argc > 5 ? std::atoi(argv[5]) : 10);
  if (!status.ok()) std::fprintf(stderr, "plan_race: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
