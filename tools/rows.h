// Tables of steps that somebody measured: networks under plans on so many devices, to compare predictions with and to fit
// profiles to. The paper's table is bench/tables/yadan-2013.json, which is part of the program.
//
// File form (version 1); a row says what it does otherwise than the table.
//   {"colonnade_rows": 1, "title": "…", "source": "…", "model": "resnet50", "batch": 64, "scaling": "weak",
//    "machine": "dgx1-v100", "rows": [{"name": "8-data", "devices": 8, "plan": "data", "images_per_sec": 2450}]}
// machine: the profile that `table` takes where --machine names none. A row may have a label, which is shown for its name.
// scaling: "strong", batch is that of all devices together; "weak", that of each device. A time is one of step_ms,
// images_per_sec and days, and may be absent; days are those of `passes` over `images`, which the table then states. plan:
// a named plan, or auto; reduction and overlap: as in a plan file, where the row's are not the plan's own. dtype: fp32, also
// where a GPU multiplies in tf32, or bf16, which stands for half precision of either kind with parameters in fp32.
// batch_norm_samples: how many samples a batch normalisation takes together, where that is not the whole batch.
#ifndef COLONNADE_TOOLS_ROWS_H_
#define COLONNADE_TOOLS_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/embedded.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"

namespace colonnade::tools {

struct Row {
  std::string name;   // "2-model", as --fit names it
  std::string label;  // "2 GPUs, model parallelism"
  std::string model;
  int devices = 1;
  std::string plan;
  int64_t global_batch = 0;
  std::optional<partition::Reduction> reduction;
  std::optional<bool> overlap;
  program::DType dtype = program::DType::kF32;
  int64_t batch_norm_samples = 0;  // 0: the whole batch; for whoever builds the network
  bool has_f32_pixels = false;     // images come from the host in f32, else as bytes
  double published_step_sec = 0;   // 0: nobody states one
};

struct RowTable {
  std::string name, title, source;
  std::string machine;            // a name or file of a profile; empty: not stated
  double images = 0, passes = 0;  // of the run whose days are shown; 0: steps are shown
  std::vector<Row> rows;          // names all different

  // Convert the seconds of a step to the days of the run, and back. REQUIRES: images > 0.
  double DaysOf(double step_sec, int64_t global_batch) const;
  double StepOf(double days, int64_t global_batch) const;
};

// Returns InvalidArgument that names the field, what was expected and what was found.
absl::StatusOr<RowTable> RowsFromJson(absl::string_view json);

// bench/tables/*.json.
absl::Span<const data::EmbeddedFile> ShippedTables();
const RowTable& PaperTable();

// Returns the plan of a row. Errors: those of the planner or the named plan.
absl::StatusOr<partition::Plan> PlanOfRow(const Row& row, const layers::LayerGraph& graph, const engine::Machine& machine);

// Returns how a row of a network is lowered: as training with momentum and weight decay.
partition::LowerOptions LowerOptionsOf(const Row& row, const layers::LayerGraph& graph);

// Returns a training step of a row with momentum and weight decay, under a plan of PlanOfRow, as LowerRepresentativesOn
// lowers it.
absl::StatusOr<program::RepresentativeProgram> LowerRow(const Row& row, const layers::LayerGraph& graph,
                                                        const engine::Machine& machine, const partition::Plan& plan);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_ROWS_H_
