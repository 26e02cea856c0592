// How well the simulator predicts this machine: calibrations and runs in turn, at shapes that the calibration did not time.
//
// In each round a calibration anew, at batches on both sides of the one that is predicted, and every case: all stay loaded
// and run in turn, slice by slice, so that they meet the same moods of the machine. Then predicted against measured step
// time, both as means without the longest tenth; the error of a case is the median over the rounds. Beside it stands its
// spread, what measured steps of the rounds differ by: no prediction can be nearer. Plans of a model that differ by more
// than that should be predicted in their order. Memory is what the backend says before it takes any, against what it took.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/command_line.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/status_macros.h"
#include "tools/calibration.h"
#include "tools/measure.h"
#include "tools/planning.h"

namespace {

using namespace colonnade;

constexpr size_t kCasesOfModel = 4;
const std::vector<std::pair<std::string, int64_t>> kModelsAndBatches = {
    {"lenet", 192}, {"alexnet2012", 32}, {"alexnet", 32}, {"resnet18", 16}};
constexpr int kStepsOfSlice = 1;
constexpr absl::Duration kSliceTime = absl::Milliseconds(100);

struct Case {
  std::string model, plan;
  int devices;
  int64_t batch;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// By round.
struct Pairs {
  std::vector<double> errors, measured_ms, predicted_ms;
  double memory_error = 0;

  double Spread() const {
    const auto [least, most] = std::minmax_element(measured_ms.begin(), measured_ms.end());
    return (*most - *least) / Median(measured_ms);
  }
};

// Of pairs of cases whose measured steps differ by more than their spreads: how many there are, and how many of them come in
// their order.
struct Order {
  int pairs = 0, right = 0;
};
Order OrderOf(absl::Span<const Pairs> of_model) {
  Order order;
  for (const Pairs& a : of_model) {
    for (const Pairs& b : of_model) {
      const double faster = Median(a.measured_ms), slower = Median(b.measured_ms);
      if (faster * (1 + std::max(a.Spread(), b.Spread())) >= slower) continue;
      ++order.pairs;
      order.right += Median(a.predicted_ms) < Median(b.predicted_ms);
    }
  }
  return order;
}

// What a case took, to be compared with what the calibration of its round predicts.
struct Measured {
  partition::Plan plan;
  double step_sec = 0;
  std::vector<engine::DeviceMemory> memory;
};

// The case and the calibration's Programs under the same plan, in turn.
absl::StatusOr<Measured> Measure(const layers::LayerGraph& graph, const Case& c, int slices,
                                 tools::Calibration& calibration) {
  absl::Status status = calibration.Load(graph, {c.plan, c.devices}, {c.batch * 3 / 4, c.batch * 5 / 4});
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(partition::Plan plan,
                   partition::NamedPlan(c.plan, graph, {.devices = c.devices, .global_batch = c.batch}));
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                   tools::StepMeter::Create(graph, plan, {.global_batch = c.batch}, calibration.backend()));
  for (int slice = 0; slice < slices; ++slice) {
    for (int i = 0; i < calibration.loaded(); ++i) {
      if (status = calibration.Run(i, kStepsOfSlice, kSliceTime); !status.ok()) return status;
      if (status = meter->Run(kStepsOfSlice, kSliceTime); !status.ok()) return status;
    }
  }
  return Measured{std::move(plan), tools::TrimmedMean(meter->step_seconds()), meter->Memory()};
}

absl::Status Compare(const engine::Machine& machine, const layers::LayerGraph& graph, const Case& c,
                     const Measured& measured, Pairs& pairs) {
  ASSIGN_OR_RETURN(tools::Predicted predicted, tools::Predict(machine, graph, measured.plan, {.global_batch = c.batch}));
  pairs.measured_ms.push_back(1e3 * measured.step_sec);
  pairs.predicted_ms.push_back(absl::ToDoubleMilliseconds(predicted.simulation.step));
  pairs.errors.push_back(pairs.predicted_ms.back() / pairs.measured_ms.back() - 1);
  ASSIGN_OR_RETURN(std::vector<engine::DeviceMemory> memory, tools::PredictCpuMemory(predicted.program));
  for (size_t d = 0; d < measured.memory.size(); ++d) {
    const double took = static_cast<double>(measured.memory[d].total_bytes());
    pairs.memory_error = std::max(pairs.memory_error, std::abs(static_cast<double>(memory[d].total_bytes()) / took - 1));
  }
  return absl::OkStatus();
}

// One pair for each of `cases`, all of one model.
absl::Status RunRound(absl::Span<const Case> cases, absl::Span<Pairs> results, int slices) {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(cases[0].model, {}));
  tools::Calibration calibration(tools::CpuTarget(/*devices=*/2));
  std::vector<Measured> measured;
  for (const Case& c : cases) {
    ASSIGN_OR_RETURN(Measured one, Measure(graph, c, slices, calibration));
    measured.push_back(std::move(one));
  }
  const tools::CalibrationPlan handoffs = tools::CalibrationPlans(2).back();
  RETURN_IF_ERROR(calibration.Load(graph, handoffs, {cases[0].batch * 3 / 4}));
  for (int slice = 0; slice < slices; ++slice) {
    RETURN_IF_ERROR(calibration.Run(0, kStepsOfSlice, kSliceTime));
  }
  RETURN_IF_ERROR(calibration.SweepTransfers());
  const engine::Machine machine = calibration.Result();
  for (size_t c = 0; c < cases.size(); ++c) {
    RETURN_IF_ERROR(Compare(machine, graph, cases[c], measured[c], results[c]));
  }
  return absl::OkStatus();
}

absl::Status Main(int rounds, int slices, const std::string& only) {
  std::vector<Case> cases;
  for (const auto& [model, batch] : kModelsAndBatches) {
    if (!only.empty() && only != model) continue;
    for (const auto& [plan, devices] :
         std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 2}, {"model", 2}, {"owt", 2}}) {
      cases.push_back({model, plan, devices, batch});
    }
  }
  std::vector<Pairs> results(cases.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < cases.size(); c += kCasesOfModel) {
      const absl::Span<Pairs> of_model = absl::MakeSpan(results).subspan(c, kCasesOfModel);
      absl::Status s = RunRound(absl::MakeSpan(cases).subspan(c, kCasesOfModel), of_model, slices);
      if (!s.ok()) return s;
      for (size_t i = 0; i < of_model.size(); ++i) {
        const Case& one = cases[c + i];
        std::fprintf(stderr, "%s\n",
                     absl::StrFormat("round %d: %s %s x %d: predicted %.2f ms, measured %.2f ms, %+.1f %%", round + 1,
                                     one.model, one.plan, one.devices, of_model[i].predicted_ms.back(),
                                     of_model[i].measured_ms.back(), 100 * of_model[i].errors.back())
                         .c_str());
      }
    }
  }
  std::vector<double> all;
  Order order;
  for (size_t c = 0; c < cases.size(); c += kCasesOfModel) {
    const Order of_model = OrderOf(absl::MakeSpan(results).subspan(c, kCasesOfModel));
    order.pairs += of_model.pairs;
    order.right += of_model.right;
  }
  std::printf("%-14s %-7s %7s %6s %14s %8s %14s %10s\n", "model", "plan", "devices", "batch", "measured ms", "spread",
              "median error", "memory");
  for (size_t c = 0; c < cases.size(); ++c) {
    const double error = Median(results[c].errors);
    all.push_back(std::abs(error));
    std::printf("%s\n", absl::StrFormat("%-14s %-7s %7d %6d %14.2f %6.1f %% %12.1f %% %8.1f %%", cases[c].model,
                                        cases[c].plan, cases[c].devices, cases[c].batch, Median(results[c].measured_ms),
                                        100 * results[c].Spread(), 100 * error, 100 * results[c].memory_error)
                            .c_str());
  }
  std::printf("%s\n", absl::StrFormat("median of the cases: %.1f %%, worst %.1f %%", 100 * Median(all),
                                      100 * *std::max_element(all.begin(), all.end()))
                          .c_str());
  std::printf("plans that differ by more than their spreads: %d pairs, %d predicted in their order\n", order.pairs,
              order.right);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5, slices = 8;
  std::string only;
  CLI::App app("How well the simulator predicts this machine: a table of predicted against measured step times.",
               "sim_accuracy");
  app.add_option("--rounds", rounds, "calibrations, and runs of every case")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--slices", slices, "of 0.1 s or one step, of every case in a round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  std::vector<std::string> models;
  for (const auto& [model, batch] : kModelsAndBatches) models.push_back(model);
  app.add_option("--model", only, "this model alone")->check(CLI::IsMember(models));
  return bench::Run(app, argc, argv, [&] { return Main(rounds, slices, only); });
}
