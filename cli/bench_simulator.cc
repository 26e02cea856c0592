// `bench simulator`: how well the simulator predicts this machine: calibrations and runs in turn, at shapes that the
// calibration did not time.
//
// In each round a calibration anew, at batches on both sides of the one that is predicted, and every case: all stay loaded
// and run in turn, slice by slice, so that they meet the same changes of the machine's speed. Then predicted against
// measured step time, both as means without the longest tenth; the error of a case is the median over the rounds. Beside it
// stands its spread, what measured steps of the rounds differ by: no prediction can be nearer. Plans of a model that differ
// by more than that should be predicted in their order. Memory is what the backend says before it takes any, against what it
// took.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/spread.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "cli/session/session.h"
#include "engine/statistics.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "tools/calibration.h"
#include "tools/measure.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SimulatorFlags {
  SimulatorFlags() { backend.name = "cpu"; }
  std::string model;  // empty: all
  int rounds = 5, slices = 8;
  BackendFlags backend;
  bool json = false;
};

constexpr size_t kCasesOfModel = 4;
const std::vector<std::pair<std::string, int64_t>> kModelsAndBatches = {
    {"lenet", 192}, {"alexnet2012", 32}, {"alexnet", 32}, {"resnet18", 16}};
constexpr int kStepsOfSlice = 1;
constexpr absl::Duration kRoundTime = absl::Milliseconds(100);

struct AccuracyCase {
  std::string model, plan;
  int devices;
  int64_t batch;
};

// By round.
struct CaseErrors {
  std::vector<double> errors, measured_ms, predicted_ms;
  double memory_error = 0;
};

// How many pairs of cases have measured steps that differ by more than their spreads, and how many of these are predicted in
// their order. REQUIRES: they have spreads.
struct PlanOrder {
  int pairs = 0, right = 0;
};
PlanOrder OrderOf(absl::Span<const CaseErrors> of_model) {
  PlanOrder order;
  for (const CaseErrors& a : of_model) {
    for (const CaseErrors& b : of_model) {
      const double faster = engine::Median(a.measured_ms), slower = engine::Median(b.measured_ms);
      if (faster * (1 + std::max(engine::SpreadOf(a.measured_ms), engine::SpreadOf(b.measured_ms))) >= slower) continue;
      ++order.pairs;
      order.right += engine::Median(a.predicted_ms) < engine::Median(b.predicted_ms);
    }
  }
  return order;
}

// What a case took, to be compared with what the calibration of its round predicts.
struct MeasuredCase {
  partition::Plan plan;
  double step_sec = 0;
  std::vector<engine::DeviceMemory> memory;
};

// The case and the calibration's Programs under the same plan, in turn.
absl::StatusOr<MeasuredCase> MeasureCase(const layers::LayerGraph& graph, const AccuracyCase& c, int slices,
                                         program::DType dtype, tools::Calibration& calibration,
                                         const std::function<void()>& before_slice) {
  RETURN_IF_ERROR(calibration.Load(graph, {c.plan, c.devices}, {c.batch * 3 / 4, c.batch * 5 / 4}));
  ASSIGN_OR_RETURN(partition::Plan plan,
                   partition::NamedPlan(c.plan, graph, {.devices = c.devices, .global_batch = c.batch}));
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter,
                   tools::StepMeter::Create(graph, plan, {.global_batch = c.batch, .dtype = dtype}, calibration.backend()));
  for (int slice = 0; slice < slices; ++slice) {
    before_slice();
    for (int i = 0; i < calibration.loaded(); ++i) {
      RETURN_IF_ERROR(calibration.Run(i, kStepsOfSlice, kRoundTime));
      RETURN_IF_ERROR(meter->Run(kStepsOfSlice, kRoundTime));
    }
  }
  return MeasuredCase{std::move(plan), engine::TrimmedMean(meter->step_seconds()), meter->Memory()};
}

absl::Status CompareCase(const engine::Machine& machine, const layers::LayerGraph& graph, const AccuracyCase& c,
                         const MeasuredCase& measured, program::DType dtype, CaseErrors& errors) {
  ASSIGN_OR_RETURN(tools::Predicted predicted,
                   tools::Predict(machine, graph, measured.plan, {.global_batch = c.batch, .dtype = dtype}));
  errors.measured_ms.push_back(1e3 * measured.step_sec);
  errors.predicted_ms.push_back(absl::ToDoubleMilliseconds(predicted.simulation.step));
  errors.errors.push_back(errors.predicted_ms.back() / errors.measured_ms.back() - 1);
  for (size_t d = 0; d < measured.memory.size(); ++d) {
    const double took = static_cast<double>(measured.memory[d].total_bytes());
    const auto said = static_cast<double>(predicted.simulation.devices[d].peak_memory_bytes);
    errors.memory_error = std::max(errors.memory_error, std::abs(said / took - 1));
  }
  return absl::OkStatus();
}

// One pair for each of `cases`, all of one model.
absl::Status RunRound(absl::Span<const AccuracyCase> cases, absl::Span<CaseErrors> results, int slices,
                      const tools::KernelChoice& kernels, const std::function<void(const AccuracyCase&)>& before_slice) {
  ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(cases[0].model, {}));
  tools::CalibrationTarget target = tools::CpuTarget(/*devices=*/2, kernels);
  const program::DType dtype = target.dtype;
  tools::Calibration calibration(std::move(target));
  std::vector<MeasuredCase> measured;
  for (const AccuracyCase& c : cases) {
    ASSIGN_OR_RETURN(MeasuredCase one, MeasureCase(graph, c, slices, dtype, calibration, [&] { before_slice(c); }));
    measured.push_back(std::move(one));
  }
  const tools::CalibrationPlan handoffs = tools::CalibrationPlans(2).back();
  RETURN_IF_ERROR(calibration.Load(graph, handoffs, {cases[0].batch * 3 / 4}));
  for (int slice = 0; slice < slices; ++slice) {
    RETURN_IF_ERROR(calibration.Run(0, kStepsOfSlice, kRoundTime));
  }
  RETURN_IF_ERROR(calibration.SweepTransfers());
  const engine::Machine machine = calibration.Result();
  for (size_t c = 0; c < cases.size(); ++c) {
    RETURN_IF_ERROR(CompareCase(machine, graph, cases[c], measured[c], dtype, results[c]));
  }
  return absl::OkStatus();
}

std::vector<AccuracyCase> CasesOf(const std::string& only) {
  std::vector<AccuracyCase> cases;
  for (const auto& [model, batch] : kModelsAndBatches) {
    if (!only.empty() && only != model) continue;
    for (const auto& [plan, devices] :
         std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 2}, {"model", 2}, {"owt", 2}}) {
      cases.push_back({model, plan, devices, batch});
    }
  }
  return cases;
}

struct Accuracy {
  std::vector<AccuracyCase> cases;
  std::vector<CaseErrors> results;

  absl::Span<const AccuracyCase> CasesAt(size_t first) const { return absl::MakeSpan(cases).subspan(first, kCasesOfModel); }
  absl::Span<const CaseErrors> ResultsAt(size_t first) const {
    return absl::MakeSpan(results).subspan(first, kCasesOfModel);
  }

  // Nothing where there are no spreads.
  std::optional<PlanOrder> OrderOfPlans() const {
    if (!HaveSpread(results[0].measured_ms)) return std::nullopt;
    PlanOrder order;
    for (size_t c = 0; c < cases.size(); c += kCasesOfModel) {
      const PlanOrder of_model = OrderOf(ResultsAt(c));
      order.pairs += of_model.pairs;
      order.right += of_model.right;
    }
    return order;
  }
  std::vector<double> AbsoluteErrors() const {
    std::vector<double> absolute;
    for (const CaseErrors& errors : results) absolute.push_back(std::abs(engine::Median(errors.errors)));
    return absolute;
  }
};

void SayRound(int round, const AccuracyCase& c, const CaseErrors& errors) {
  Say(absl::StrFormat("round %d: %s %s x %d: predicted %.2f ms, measured %.2f ms, %+.1f %%", round + 1, c.model, c.plan,
                      c.devices, errors.predicted_ms.back(), errors.measured_ms.back(), 100 * errors.errors.back()));
}

absl::Status RunRounds(int rounds, int slices, const tools::KernelChoice& kernels, Accuracy& accuracy) {
  CountProgress progress("timing:");
  const auto all = static_cast<int64_t>(accuracy.cases.size()) * rounds * slices;
  int64_t done = 0;
  const auto before_slice = [&](const AccuracyCase& c) {
    progress.Show(done++, all, absl::StrFormat(" slices, %s %s x %d", c.model, c.plan, c.devices));
  };
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < accuracy.cases.size(); c += kCasesOfModel) {
      const absl::Span<CaseErrors> of_model = absl::MakeSpan(accuracy.results).subspan(c, kCasesOfModel);
      RETURN_IF_ERROR(RunRound(accuracy.CasesAt(c), of_model, slices, kernels, before_slice));
      for (size_t i = 0; i < of_model.size(); ++i) SayRound(round, accuracy.cases[c + i], of_model[i]);
    }
  }
  return absl::OkStatus();
}

void PrintAccuracy(const Accuracy& accuracy) {
  PrintLine(absl::StrFormat("%-14s %-7s %7s %6s %14s %8s %14s %10s", "model", "plan", "devices", "batch", "measured ms",
                            "spread", "median error", "memory"));
  for (size_t c = 0; c < accuracy.cases.size(); ++c) {
    const AccuracyCase& one = accuracy.cases[c];
    const CaseErrors& of_case = accuracy.results[c];
    PrintLine(absl::StrFormat("%-14s %-7s %7d %6d %14.2f %8s %12.1f %% %8.1f %%", one.model, one.plan, one.devices,
                              one.batch, engine::Median(of_case.measured_ms), SpreadText(of_case.measured_ms),
                              100 * engine::Median(of_case.errors), 100 * of_case.memory_error));
  }
  const std::vector<double> errors = accuracy.AbsoluteErrors();
  PrintLine(absl::StrFormat("median of the cases: %.1f %%, worst %.1f %%", 100 * engine::Median(errors),
                            100 * *std::max_element(errors.begin(), errors.end())));
  const std::optional<PlanOrder> order = accuracy.OrderOfPlans();
  if (!order.has_value()) return;
  PrintLine(absl::StrFormat("plans that differ by more than their spreads: %s, %d predicted in their order",
                            base::Counted(order->pairs, "pair"), order->right));
}

Json AccuracyJson(const Accuracy& accuracy) {
  const std::vector<double> errors = accuracy.AbsoluteErrors();
  const std::optional<PlanOrder> order = accuracy.OrderOfPlans();
  Json json = {{"cases", Json::array()},
               {"median_error", engine::Median(errors)},
               {"worst_error", *std::max_element(errors.begin(), errors.end())},
               {"pairs", order.has_value() ? Json(order->pairs) : Json()},
               {"pairs_in_order", order.has_value() ? Json(order->right) : Json()}};
  for (size_t c = 0; c < accuracy.cases.size(); ++c) {
    const AccuracyCase& one = accuracy.cases[c];
    const CaseErrors& of_case = accuracy.results[c];
    json["cases"].push_back({{"model", one.model},
                             {"plan", one.plan},
                             {"devices", one.devices},
                             {"global_batch", one.batch},
                             {"measured_ms", of_case.measured_ms},
                             {"predicted_ms", of_case.predicted_ms},
                             {"spread", SpreadJson(of_case.measured_ms)},
                             {"median_error", engine::Median(of_case.errors)},
                             {"memory_error", of_case.memory_error}});
  }
  return json;
}

std::vector<std::string> ModelsToPredict() {
  std::vector<std::string> models;
  for (const auto& [model, batch] : kModelsAndBatches) models.push_back(model);
  return models;
}

absl::Status RunBenchSimulator(const SimulatorFlags& flags) {
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  Accuracy accuracy{.cases = CasesOf(flags.model)};
  accuracy.results.resize(accuracy.cases.size());
  RETURN_IF_ERROR(RunRounds(flags.rounds, flags.slices, KernelsOf(flags.backend), accuracy));
  if (flags.json) {
    Json json = AccuracyJson(accuracy);
    json["kernels"] = flags.backend.kernels;
    json["dtype"] = flags.backend.dtype;
    PrintJson(json);
  } else {
    PrintAccuracy(accuracy);
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddBenchSimulator(CLI::App& bench) {
  CLI::App* simulator = bench.add_subcommand(
      "simulator",
      "How well the simulator predicts this machine: calibrations and runs in turn, and the error of each case.");
  const auto flags = std::make_shared<SimulatorFlags>();
  simulator->add_option("--model", flags->model, "this network alone")->check(CLI::IsMember(ModelsToPredict()));
  simulator->add_option("--rounds", flags->rounds, "calibrations, and runs of every case")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  simulator->add_option("--slices", flags->slices, "turns that each case gets in a round, of 0.1 s or one step")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddTimedKernelsFlag(*simulator, flags->backend);
  simulator->add_option("--dtype", flags->backend.dtype, "element type of compute")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  AddJsonFlag(*simulator, flags->json);
  simulator->footer(
      "Examples:\n  colonnade bench simulator --model=lenet --rounds=3\n  colonnade bench simulator --rounds=5 --slices=4 "
      "--json");
  return {simulator, [=] { return RunBenchSimulator(*flags); }};
}

}  // namespace colonnade::cli
