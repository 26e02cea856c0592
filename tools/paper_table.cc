#include "tools/paper_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "program/status_macros.h"
#include "tools/planning.h"

namespace colonnade::tools {
namespace {

constexpr double kImages = 1281167, kPasses = 100, kSecondsPerDay = 86400;
constexpr double kMomentum = 0.9, kWeightDecay = 5e-4;

const TableRow* FindRow(const std::vector<TableRow>& rows, const std::string& configuration) {
  for (const TableRow& row : rows) {
    if (row.configuration == configuration) return &row;
  }
  return nullptr;
}

}  // namespace

std::vector<TableRow> PaperRows() {
  return {{"1", "1 GPU", 1, "single", 10.5, {}, false},
          {"2-model", "2 GPUs, model parallelism", 2, "model", 6.6, {}, false},
          {"2-data", "2 GPUs, data parallelism", 2, "data", 7.0, {}, false},
          {"4-data", "4 GPUs, data parallelism", 4, "data", 7.2, {}, false},
          {"4-hybrid", "4 GPUs, model + data parallelism", 4, "hybrid", 4.8, {}, false},
          {"4-owt", "4 GPUs, one weird trick", 4, "owt", 0, {}, false},
          {"4-auto", "4 GPUs, the planner's choice", 4, "auto", 0, {}, false}};
}

double DaysOf(absl::Duration step, int64_t global_batch) {
  return absl::ToDoubleSeconds(step) * kPasses * std::ceil(kImages / static_cast<double>(global_batch)) / kSecondsPerDay;
}

absl::Duration StepOf(double days, int64_t global_batch) {
  return absl::Seconds(days * kSecondsPerDay / (kPasses * std::ceil(kImages / static_cast<double>(global_batch))));
}

absl::StatusOr<partition::Plan> PlanOfRow(const TableRow& row, const layers::LayerGraph& graph, int64_t global_batch,
                                          const engine::Machine& machine) {
  if (row.plan == "auto") {
    ASSIGN_OR_RETURN(
        std::vector<partition::Candidate> candidates,
        SearchPlansOn(machine, graph,
                      {.global_batch = global_batch,
                       .update = {.optimizer = program::Sgd{.momentum = kMomentum}, .weight_decay = kWeightDecay}},
                      row.devices));
    return candidates.front().plan;
  }
  absl::StatusOr<partition::Plan> plan =
      partition::NamedPlan(row.plan, graph, {.devices = row.devices, .global_batch = global_batch});
  if (plan.ok() && row.paper_days > 0) {
    plan->reduction = partition::Reduction::kMaster;
    plan->overlap = false;
  }
  return plan;
}

absl::StatusOr<engine::Simulation> SimulateRow(const TableRow& row, const layers::LayerGraph& graph, int64_t global_batch,
                                               const engine::Machine& machine) {
  ASSIGN_OR_RETURN(partition::Plan plan, PlanOfRow(row, graph, global_batch, machine));
  ASSIGN_OR_RETURN(
      program::Program program,
      partition::Lower(graph, plan,
                       {.global_batch = global_batch,
                        .update = {.optimizer = program::Sgd{.momentum = kMomentum}, .weight_decay = kWeightDecay}}));
  return engine::Simulate(program, machine);
}

engine::Machine WithSlowerKernels(engine::Machine machine, double factor) {
  machine.flops_per_sec.value /= factor;
  machine.memory_bytes_per_sec.value /= factor;
  machine.shared_memory_bytes_per_sec.value /= factor;
  for (engine::OpRate& op : machine.ops) {
    for (engine::OpRate::Point& point : op.points) point.rate /= factor;
  }
  return machine;
}

absl::StatusOr<PaperFit> CalibrateOnPaper(engine::Machine& machine, const layers::LayerGraph& graph, int64_t global_batch,
                                          const std::string& extra) {
  const std::vector<TableRow> rows = PaperRows();
  const TableRow *one = &rows[0], *second = extra.empty() ? nullptr : FindRow(rows, extra);
  if (!extra.empty() && (second == nullptr || second == one || second->paper_days == 0)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("calibrate_on: expected 2-model, 2-data, 4-data or 4-hybrid, found \"%s\"", extra));
  }
  engine::Machine bare = machine;
  bare.step_sec.value = 0;
  absl::Status status;
  auto step_of = [&](const TableRow& row, double factor) {
    absl::StatusOr<engine::Simulation> simulation = SimulateRow(row, graph, global_batch, WithSlowerKernels(bare, factor));
    if (!simulation.ok()) {
      status = simulation.status();
      return 0.0;
    }
    return absl::ToDoubleSeconds(simulation->step);
  };
  const double paper = absl::ToDoubleSeconds(StepOf(one->paper_days, global_batch));
  PaperFit fit;
  // At this factor kernels and copies alone take the paper's step, and nothing is left for the host.
  const double most = paper / step_of(*one, 1);
  if (second != nullptr) {
    // Slower kernels leave less that no plan splits, so that the second row falls as the factor rises.
    const double target = absl::ToDoubleSeconds(StepOf(second->paper_days, global_batch));
    double low = 0.01, high = most;
    for (int i = 0; i < 40 && status.ok(); ++i) {
      const double middle = (low + high) / 2;
      const double step = step_of(*second, middle) + paper - step_of(*one, middle);
      (step > target ? low : high) = middle;
    }
    fit.kernel_factor = (low + high) / 2;
  } else {
    fit.kernel_factor = std::min(1.0, most);
  }
  if (!status.ok()) return status;
  machine = WithSlowerKernels(machine, fit.kernel_factor);
  fit.step_sec = std::max(0.0, paper - step_of(*one, fit.kernel_factor));
  machine.step_sec = {fit.step_sec, engine::Origin::kPublished, "what is left of the paper's 1-GPU row"};
  return fit;
}

}  // namespace colonnade::tools
