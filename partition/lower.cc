#include "partition/lower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "partition/passes.h"
#include "program/verify.h"

namespace colonnade::partition {

absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options) {
  if (absl::Status s = ValidatePlan(plan, graph, options.global_batch); !s.ok()) return s;
  absl::StatusOr<std::vector<NodeSharding>> shardings = ShardGraph(graph, plan, options.global_batch);
  if (!shardings.ok()) return shardings.status();
  Lowering lowering{.graph = graph, .plan = plan, .options = options, .shardings = *std::move(shardings)};

  using Pass = absl::Status (*)(Lowering&);
  for (Pass pass : {Pass{ExpandPasses}, Pass{ExpandShards}, Pass{InsertResharding}, Pass{BucketGradients},
                    Pass{InsertGradientReduction}, Pass{FuseEpilogues}, Pass{ChoosePrecision}, Pass{OrderSteps}}) {
    if (absl::Status s = pass(lowering); !s.ok()) return s;
  }
  absl::StatusOr<program::Program> program = EmitTasks(lowering);
  if (!program.ok()) return program.status();
  if (absl::Status s = AssignWaits(*program); !s.ok()) return s;
  if (absl::Status s = program::Verify(*program); !s.ok()) {
    return absl::InternalError(absl::StrCat("lowering made a Program that breaks a rule: ", s.message()));
  }
  return program;
}

}  // namespace colonnade::partition
