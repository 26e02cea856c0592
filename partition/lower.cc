#include "partition/lower.h"

#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "layers/traits.h"
#include "partition/legality.h"
#include "partition/lowering/check_actions.h"
#include "partition/lowering/passes.h"
#include "partition/step_contents.h"
#include "program/verify.h"

namespace colonnade::partition {
namespace {

constexpr int kLoweringPassesOnTasks = 2;  // emission and waits; Verify comes last

struct LoweringPass {
  const char* name;
  absl::Status (*run)(Lowering&);
};

constexpr LoweringPass kLoweringPasses[] = {
    {"expand stages", ExpandStages},
    {"advance masks", AdvanceMasks},
    {"expand shards", ExpandShards},
    {"insert resharding", InsertResharding},
    {"bucket statistics", BucketStatistics},
    {"hide transfers", HideTransfers},
    {"bucket gradients", BucketGradients},
    {"insert gradient reduction", InsertGradientReduction},
    {"fuse epilogues", FuseEpilogues},
    {"fuse masks", FuseMasks},
    {"fold normalisations", FoldNormalisations},
    {"choose precision", ChoosePrecision},
    {"split transfers", SplitTransfers},
    {"order actions", OrderActions},
};

absl::Status CheckType(const LowerOptions& options) {
  if (program::IsFloat(options.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("element type of a Program: expected f32, bf16 or f64, found ", program::Name(options.dtype)));
}

absl::Status CheckPixels(const layers::LayerGraph& graph, const LowerOptions& options) {
  if (!options.pixels.has_value()) return absl::OkStatus();
  for (const std::vector<double>& numbers : {options.pixels->scale, options.pixels->shift}) {
    const auto wrong = absl::c_find_if_not(numbers, program::FitsF32);
    if (wrong == numbers.end()) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "pixels: expected scales and shifts that f32 holds, of each channel 1 / std and -mean / std, found %g", *wrong));
  }
  const size_t channels = static_cast<size_t>(graph.nodes[0].sample_shape[0]);
  if (options.pixels->scale.size() == channels && options.pixels->shift.size() == channels) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("pixels: expected a scale and a shift for each of %s, found %d and %d",
                      base::Counted(channels, "channel"), options.pixels->scale.size(), options.pixels->shift.size()));
}

absl::Status CheckTrains(const layers::LayerGraph& graph, const LowerOptions& options) {
  const auto has_parameters = [](const layers::LayerNode& node) { return !node.parameters.empty(); };
  if (options.mode == program::Mode::kEval || absl::c_any_of(graph.nodes, has_parameters)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("network \"%s\": expected a layer with parameters to train, found none", graph.name));
}

// In evaluation, only layers that the network's own loss depends on can be shown.
absl::Status CheckShown(const layers::LayerGraph& graph, const LowerOptions& options) {
  const StepContents contents(graph, options.mode, options.update.frozen_layers);
  std::vector<std::string> computed;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const layers::LayerNode& node = graph.nodes[i];
    if (contents.Runs(i) && !layers::IsInput(node.layer) && !layers::IsLoss(node.layer)) computed.push_back(node.name);
  }
  for (const std::string& shown : options.shown_layers) {
    if (absl::c_linear_search(computed, shown)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "layer to be shown: expected one of network \"%s\" that makes an activation in this step, found \"%s\"%s",
        graph.name, shown, base::DidYouMean("; ", shown, computed)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMicroBatches(const LowerOptions& options) {
  if (options.micro_batches < 1 || options.global_batch % options.micro_batches != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected a number of micro-batches that divides the batch of %d, found %d", options.global_batch,
                        options.micro_batches));
  }
  if (options.micro_batches == 1 || options.mode == program::Mode::kTrain) return absl::OkStatus();
  return absl::FailedPreconditionError("expected one micro-batch in evaluation, which adds no gradients");
}

absl::Status UpdateOptions::Check(const layers::LayerGraph& graph) const {
  std::set<std::string> trained;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!node.parameters.empty()) trained.insert(node.name);
  }
  const bool has_parameters = !trained.empty();
  if (const absl::Status numbers = program::CheckOptimizer(optimizer); !numbers.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("update: ", numbers.message()));
  }
  std::vector<std::string> named(frozen_layers.begin(), frozen_layers.end());
  for (const auto& [layer, rate] : layer_rates) {
    named.push_back(layer);
    if (!(rate >= 0 && program::FitsF32(rate))) {
      return absl::InvalidArgumentError(
          absl::StrFormat("rate of layer \"%s\": expected a factor from 0 that f32 holds, found %g", layer, rate));
    }
  }
  for (const std::string& layer : named) {
    if (!trained.contains(layer)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("update: expected a layer of network \"%s\" with parameters, found \"%s\"%s", graph.name, layer,
                          base::DidYouMean("; ", layer, {trained.begin(), trained.end()})));
    }
  }
  for (const auto& [name, number] : {std::pair("weight decay", weight_decay), {"norm to clip at", clip_norm}}) {
    if (number >= 0 && program::FitsF32(number)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("update: expected a %s from 0 that f32 holds, found %g", name, number));
  }
  for (const std::string& layer : frozen_layers) trained.erase(layer);
  if (!(average_decay >= 0 && average_decay < 1)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("update: expected a decay of averages in [0, 1), found %g", average_decay));
  }
  if (!has_parameters || !trained.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("update: expected a layer that is left to train, found all frozen");
}

namespace {

// Tells of each pass that is done.
class LoweringProgress {
 public:
  explicit LoweringProgress(const LowerOptions& options) : options_(options) {}
  void Next() {
    if (options_.progress) options_.progress(++done_, static_cast<int>(std::size(kLoweringPasses)) + kLoweringPassesOnTasks);
  }

 private:
  const LowerOptions& options_;
  int done_ = 0;
};

// The actions of a step, ready to be emitted. It keeps references to its arguments.
absl::StatusOr<Lowering> LowerToActions(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options,
                                        LoweringProgress& progress) {
  RETURN_IF_ERROR(CheckBatchSize(graph, options.global_batch));
  RETURN_IF_ERROR(CheckMicroBatches(options));
  RETURN_IF_ERROR(CheckType(options));
  RETURN_IF_ERROR(CheckPixels(graph, options));
  RETURN_IF_ERROR(CheckTrains(graph, options));
  RETURN_IF_ERROR(options.update.Check(graph));
  RETURN_IF_ERROR(CheckShown(graph, options));
  if (options.reads_averages && options.mode != program::Mode::kEval) {
    return absl::FailedPreconditionError("averages: expected evaluation, which alone reads them, found training");
  }
  ASSIGN_OR_RETURN(GraphSharding sharding,
                   ShardByPlan(plan, graph, options.samples_at_once(), options.mode, options.micro_batches));
  Lowering lowering{.graph = graph,
                    .plan = plan,
                    .options = options,
                    .shardings = std::move(sharding.nodes),
                    .batch_parts = sharding.transfer_parts};
  for (const LoweringPass& pass : kLoweringPasses) {
    RETURN_IF_ERROR(pass.run(lowering));
    RETURN_IF_ERROR(CheckActions(lowering, pass.name));
    progress.Next();
  }
  return lowering;
}

absl::StatusOr<program::Program> LowerUnverified(const layers::LayerGraph& graph, const Plan& plan,
                                                 const LowerOptions& options) {
  LoweringProgress progress(options);
  ASSIGN_OR_RETURN(const Lowering lowering, LowerToActions(graph, plan, options, progress));
  program::Program program = EmitTasks(lowering);
  progress.Next();
  RETURN_IF_ERROR(AssignWaits(program));
  progress.Next();
  return program;
}

}  // namespace

absl::StatusOr<program::RepresentativeProgram> LowerRepresentatives(const layers::LayerGraph& graph, const Plan& plan,
                                                                    const LowerOptions& options,
                                                                    const GroupClassifier& classify_group) {
  LoweringProgress progress(options);
  ASSIGN_OR_RETURN(const Lowering lowering, LowerToActions(graph, plan, options, progress));
  program::RepresentativeProgram representatives = EmitRepresentatives(lowering, classify_group);
  progress.Next();
  RETURN_IF_ERROR(AssignWaits(representatives.program));
  progress.Next();
  return representatives;
}

absl::StatusOr<program::Program> Lower(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options) {
  ASSIGN_OR_RETURN(program::Program program, LowerUnverified(graph, plan, options));
  if (absl::Status s = program::Verify(program); !s.ok()) {
    return absl::InternalError(absl::StrCat("lowering made a Program that breaks a rule: ", s.message()));
  }
  return program;
}

}  // namespace colonnade::partition
