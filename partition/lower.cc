#include "partition/lower.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "partition/check_actions.h"
#include "partition/passes.h"
#include "program/status_macros.h"
#include "program/verify.h"

namespace colonnade::partition {
namespace {

struct LoweringPass {
  const char* name;
  absl::Status (*run)(Lowering&);
};

constexpr LoweringPass kPasses[] = {
    {"expand passes", ExpandPasses},
    {"advance masks", AdvanceMasks},
    {"expand shards", ExpandShards},
    {"insert resharding", InsertResharding},
    {"hide transfers", HideTransfers},
    {"bucket gradients", BucketGradients},
    {"insert gradient reduction", InsertGradientReduction},
    {"fuse epilogues", FuseEpilogues},
    {"fuse masks", FuseMasks},
    {"fold normalisations", FoldNormalisations},
    {"choose precision", ChoosePrecision},
    {"order actions", OrderActions},
};

absl::Status CheckPieces(const LowerOptions& options) {
  if (options.pieces < 1 || options.global_batch % options.pieces != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "expected a number of pieces that divides the batch of %d, found %d", options.global_batch, options.pieces));
  }
  if (options.pieces == 1 || options.mode == program::Mode::kTrain) return absl::OkStatus();
  return absl::FailedPreconditionError("expected one piece in evaluation, which adds no gradients");
}

}  // namespace

absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options) {
  RETURN_IF_ERROR(CheckPieces(options));
  const int64_t samples = options.global_batch / options.pieces;
  RETURN_IF_ERROR(ValidatePlan(plan, graph, samples));
  ASSIGN_OR_RETURN(std::vector<NodeSharding> shardings, ShardGraph(graph, plan, samples, options.mode, options.pieces));
  Lowering lowering{.graph = graph, .plan = plan, .options = options, .shardings = std::move(shardings)};
  for (const LoweringPass& pass : kPasses) {
    RETURN_IF_ERROR(pass.run(lowering));
    RETURN_IF_ERROR(CheckActions(lowering, pass.name));
  }
  ASSIGN_OR_RETURN(program::Program program, EmitTasks(lowering));
  RETURN_IF_ERROR(AssignWaits(program));
  if (absl::Status s = program::Verify(program); !s.ok()) {
    return absl::InternalError(absl::StrCat("lowering made a Program that breaks a rule: ", s.message()));
  }
  return program;
}

}  // namespace colonnade::partition
