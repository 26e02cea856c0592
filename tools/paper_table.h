// The table of Yadan, Adams, Taigman, Ranzato 2013: one network on 1, 2 and 4 GPUs, split five ways, with what is simulated.
//
// Rows are lowered as the paper describes them: gradients to a master and parameters back, nothing overlapped. Beside them
// stand one weird trick and the planner's choice on as many devices, all-reduced and overlapped. A row's days are those of
// 100 passes over ILSVRC 2012 (1,281,167 images) in batches of `global_batch`: what makes the paper's 10.5 days 1.81 s a
// step.
#ifndef COLONNADE_TOOLS_PAPER_TABLE_H_
#define COLONNADE_TOOLS_PAPER_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "layers/graph.h"
#include "partition/plan.h"

namespace colonnade::tools {

struct TableRow {
  std::string configuration;  // "2-model", as --calibrate-on names it
  std::string label;          // "2 GPUs, model parallelism"
  int devices = 1;
  std::string plan;       // name of a plan
  double paper_days = 0;  // 0: the paper has no such row
  absl::Duration simulated_step;
  bool calibrated = false;  // the profile took a number from this row
};

// The paper's five, then owt and auto on four devices.
std::vector<TableRow> PaperRows();

// The plan of a row. Master and no overlap where the paper has the row.
absl::StatusOr<partition::Plan> PlanOfRow(const TableRow& row, const layers::LayerGraph& graph, int64_t global_batch,
                                          const engine::Machine& machine);

double DaysOf(absl::Duration step, int64_t global_batch);
absl::Duration StepOf(double days, int64_t global_batch);

// What calibration made of a profile: the part of a step that no plan splits, and a factor on the time of all kernels.
struct PaperFit {
  double step_sec = 0;
  double kernel_factor = 1;
};

// Fits step_sec so that the 1-GPU row is the paper's; with `extra` (a configuration) also the kernel factor, so that this
// row is too. Nothing else of the profile changes. FailedPrecondition for an unknown row.
absl::StatusOr<PaperFit> CalibrateOnPaper(engine::Machine& machine, const layers::LayerGraph& graph, int64_t global_batch,
                                          const std::string& extra);

// A machine all of whose kernels take `factor` times as long.
engine::Machine WithSlowerKernels(engine::Machine machine, double factor);

// Steps of a row on `machine`.
absl::StatusOr<engine::Simulation> SimulateRow(const TableRow& row, const layers::LayerGraph& graph, int64_t global_batch,
                                               const engine::Machine& machine);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_PAPER_TABLE_H_
