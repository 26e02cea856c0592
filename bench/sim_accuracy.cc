// How well the simulator predicts this machine: calibrations and runs in turn, at shapes that the calibration did not time.
//
//   sim_accuracy [rounds] [steps] [model]
//
// Each round calibrates anew at batches on both sides of the one that is predicted, then runs every case, and compares
// predicted with measured step time; the error of a case is the median over the rounds. Memory is what the backend says
// before it takes any, against what it took.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/calibrate.h"
#include "cli/measure.h"
#include "cli/planning.h"
#include "models/models.h"
#include "partition/named_plans.h"

namespace {

using namespace colonnade;

struct Case {
  std::string model, plan;
  int devices;
  int64_t batch;
};

struct Pairs {
  std::vector<double> errors;
  double measured_ms = 0, predicted_ms = 0, memory_error = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status RunCase(const engine::Machine& machine, const Case& c, int steps, Pairs& pairs) {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(c.model, {});
  if (!graph.ok()) return graph.status();
  absl::StatusOr<partition::Plan> plan =
      partition::NamedPlan(c.plan, *graph, {.devices = c.devices, .global_batch = c.batch});
  if (!plan.ok()) return plan.status();
  const partition::LowerOptions lower{.global_batch = c.batch};
  absl::StatusOr<cli::Predicted> predicted = cli::Predict(machine, *graph, *plan, lower);
  if (!predicted.ok()) return predicted.status();
  absl::StatusOr<cli::MeasuredRun> run = cli::MeasureSteps(*graph, *plan, lower, steps);
  if (!run.ok()) return run.status();
  pairs.measured_ms = absl::ToDoubleMilliseconds(run->median_step);
  pairs.predicted_ms = absl::ToDoubleMilliseconds(predicted->simulation.step);
  pairs.errors.push_back(pairs.predicted_ms / pairs.measured_ms - 1);
  const absl::StatusOr<std::vector<engine::DeviceMemory>> memory = cli::PredictCpuMemory(predicted->program);
  if (!memory.ok()) return memory.status();
  for (size_t d = 0; d < run->memory.size(); ++d) {
    const double took = static_cast<double>(run->memory[d].total_bytes());
    pairs.memory_error = std::max(pairs.memory_error, std::abs(static_cast<double>((*memory)[d].total_bytes()) / took - 1));
  }
  return absl::OkStatus();
}

absl::Status Main(int rounds, int steps, const std::string& only) {
  std::vector<Case> cases;
  for (const auto& [model, batch] :
       std::vector<std::pair<std::string, int64_t>>{{"lenet", 192}, {"alexnet2012", 32}, {"alexnet", 32}}) {
    if (!only.empty() && only != model) continue;
    for (const auto& [plan, devices] :
         std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 2}, {"model", 2}, {"owt", 2}}) {
      cases.push_back({model, plan, devices, batch});
    }
  }
  std::vector<Pairs> results(cases.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < cases.size();) {
      cli::CalibrationOptions options{.devices = 2, .steps = steps};
      absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(cases[c].model, {});
      if (!graph.ok()) return graph.status();
      options.cases.push_back({*std::move(graph), {cases[c].batch * 3 / 4, cases[c].batch * 5 / 4}});
      absl::StatusOr<engine::Machine> machine = cli::CalibrateThisMachine(options);
      if (!machine.ok()) return machine.status();
      for (const std::string model = cases[c].model; c < cases.size() && cases[c].model == model; ++c) {
        if (absl::Status s = RunCase(*machine, cases[c], steps, results[c]); !s.ok()) return s;
        std::fprintf(stderr, "%s\n",
                     absl::StrFormat("round %d: %s %s x %d: predicted %.2f ms, measured %.2f ms, %+.1f %%", round + 1,
                                     cases[c].model, cases[c].plan, cases[c].devices, results[c].predicted_ms,
                                     results[c].measured_ms, 100 * results[c].errors.back())
                         .c_str());
      }
    }
  }
  std::vector<double> all;
  std::printf("%-14s %-7s %7s %6s %14s %14s %10s\n", "model", "plan", "devices", "batch", "measured ms", "median error",
              "memory");
  for (size_t c = 0; c < cases.size(); ++c) {
    const double error = Median(results[c].errors);
    all.push_back(std::abs(error));
    std::printf("%s\n", absl::StrFormat("%-14s %-7s %7d %6d %14.2f %12.1f %% %8.1f %%", cases[c].model, cases[c].plan,
                                        cases[c].devices, cases[c].batch, results[c].measured_ms, 100 * error,
                                        100 * results[c].memory_error)
                            .c_str());
  }
  std::printf("%s\n", absl::StrFormat("median of the cases: %.1f %%", 100 * Median(all)).c_str());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status =
      Main(argc > 1 ? std::atoi(argv[1]) : 5, argc > 2 ? std::atoi(argv[2]) : 5, argc > 3 ? argv[3] : "");
  if (!status.ok()) std::fprintf(stderr, "sim_accuracy: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
