#include "partition/lower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "partition/check_steps.h"
#include "partition/passes.h"
#include "program/verify.h"

namespace colonnade::partition {
namespace {

struct Pass {
  const char* name;
  absl::Status (*run)(Lowering&);
};

constexpr Pass kPasses[] = {
    {"expand passes", ExpandPasses},       {"advance ReLU", AdvanceRelu},
    {"expand shards", ExpandShards},       {"insert resharding", InsertResharding},
    {"bucket gradients", BucketGradients}, {"insert gradient reduction", InsertGradientReduction},
    {"fuse epilogues", FuseEpilogues},     {"choose precision", ChoosePrecision},
    {"order steps", OrderSteps},
};

}  // namespace

absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options) {
  if (absl::Status s = ValidatePlan(plan, graph, options.global_batch); !s.ok()) return s;
  absl::StatusOr<std::vector<NodeSharding>> shardings = ShardGraph(graph, plan, options.global_batch);
  if (!shardings.ok()) return shardings.status();
  Lowering lowering{.graph = graph, .plan = plan, .options = options, .shardings = *std::move(shardings)};
  for (const Pass& pass : kPasses) {
    if (absl::Status s = pass.run(lowering); !s.ok()) return s;
    if (absl::Status s = CheckSteps(lowering, pass.name); !s.ok()) return s;
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
