// What random networks under random plans have covered.
#ifndef COLONNADE_TESTS_PARTITION_RANDOM_COVERAGE_H_
#define COLONNADE_TESTS_PARTITION_RANDOM_COVERAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/graph.h"
#include "layers/traits.h"
#include "partition/lowering/passes.h"
#include "partition/plan.h"
#include "partition/shardings.h"

namespace colonnade::partition {

// What has been drawn: "Conv2d column axis 1 backward", "split(1) -> replicated/g: all_gather".
class Coverage {
 public:
  // Whether something was drawn for the first time.
  bool Count(const layers::LayerGraph& graph, const Plan& plan, int64_t batch) {
    const size_t before = drawn_.size();
    Insert(graph, plan, batch);
    return drawn_.size() > before;
  }

  // What should have been drawn and was not.
  std::vector<std::string> Missing() const {
    std::vector<std::string> missing;
    for (const std::string& expected : Expected()) {
      if (!drawn_.contains(expected)) missing.push_back(expected);
    }
    return missing;
  }
  size_t size() const { return drawn_.size(); }

 private:
  void Insert(const layers::LayerGraph& graph, const Plan& plan, int64_t batch) {
    const LowerOptions options{.global_batch = batch};
    absl::StatusOr<GraphSharding> sharding = ShardGraph(graph, plan, batch);
    if (!sharding.ok()) return;
    Lowering lowering{.graph = graph, .plan = plan, .options = options, .shardings = std::move(sharding->nodes)};
    if (!ExpandStages(lowering).ok() || !AdvanceMasks(lowering).ok() || !ExpandShards(lowering).ok() ||
        !InsertResharding(lowering).ok() || !BucketGradients(lowering).ok() || !InsertGradientReduction(lowering).ok()) {
      return;
    }
    CountActions(graph, plan, lowering);
    if (!FuseEpilogues(lowering).ok() || !FuseMasks(lowering).ok()) return;
    CountFused(lowering);
    lowering.batch_parts = sharding->transfer_parts;
    if (ChoosePrecision(lowering).ok() && SplitTransfers(lowering).ok()) CountParts(graph, lowering);
  }

  void CountParts(const layers::LayerGraph& graph, const Lowering& lowering) {
    for (const Action& action : lowering.actions) {
      if (!action.batch_part.has_value()) continue;
      if (const auto* reshard = std::get_if<Reshard>(&action.body)) drawn_.insert(InParts(Name(reshard->entry.kind), true));
      const auto* run = std::get_if<RunStage>(&action.body);
      if (run == nullptr) continue;
      const bool forward = lowering.stage(*run).pass == program::Pass::kForward;
      drawn_.insert(InParts(layers::TypeName(graph.nodes[run->node].layer), forward));
    }
  }

  void CountFused(const Lowering& lowering) {
    for (const Action& action : lowering.actions) {
      const auto* run = std::get_if<RunStage>(&action.body);
      if (run == nullptr) continue;
      for (layers::Fused fused : run->fused_reads) drawn_.insert(InOneAction(fused));
      if (run->epilogue && lowering.stage(*run).pass == program::Pass::kBackward) drawn_.insert(kRecalled);
    }
  }

  void CountActions(const layers::LayerGraph& graph, const Plan& plan, const Lowering& lowering) {
    drawn_.insert(Losses(graph));
    for (const GradientBucket& bucket : lowering.buckets) {
      if (bucket.reduction_parts > 1) drawn_.insert(InParts(plan.reduction));
    }
    for (const Action& action : lowering.actions) {
      if (const auto* reshard = std::get_if<Reshard>(&action.body)) {
        drawn_.insert(Entry(reshard->entry.from, reshard->entry.to));
      }
      if (std::holds_alternative<SumGradients>(action.body) && IsPartial(lowering.value(action.outputs[0]).placement)) {
        drawn_.insert(kSumOfPartial);
      }
      const auto* run = std::get_if<RunStage>(&action.body);
      if (run == nullptr) continue;
      const bool forward = lowering.stage(*run).pass == program::Pass::kForward;
      const layers::LayerNode& node = graph.nodes[run->node];
      for (int a = 0; a < 2; ++a) {
        if (plan.mesh.axes[a].size == 1) continue;
        const TensorPlacement& output = lowering.shardings[run->node].output;
        if (!output[a].sections.empty() && output[a].dim == 1)
          drawn_.insert(InSections(layers::TypeName(node.layer), forward));
        drawn_.insert(absl::StrCat(layers::TypeName(node.layer), " ", layers::Name(plan.layers.at(node.name)[a]), " axis ",
                                   a, forward ? " forward" : " backward"));
      }
    }
  }

  static constexpr char kRecalled[] = "a mask that is recalled";
  static std::string InOneAction(layers::Fused fused) { return absl::StrCat("fused operand ", static_cast<int>(fused)); }
  static std::string InSections(const char* layer, bool forward) {
    return absl::StrCat(layer, " in sections", forward ? " forward" : " backward");
  }
  static std::string InParts(const char* what, bool forward) {
    return absl::StrCat(what, " in parts", forward ? "" : " backward");
  }
  static constexpr char kSumOfPartial[] = "gradients that are added before they are reduced";
  static std::string InParts(Reduction reduction) { return absl::StrCat("a bucket in parts, ", Name(reduction)); }
  static bool IsPartial(const TensorPlacement& placement) {
    return std::any_of(placement.begin(), placement.end(),
                       [](const layers::Placement& p) { return p.kind == layers::Placement::Kind::kPartial; });
  }
  static std::string Losses(const layers::LayerGraph& graph) {
    int losses = 0;
    for (const layers::LayerNode& node : graph.nodes) losses += layers::IsLoss(node.layer);
    return absl::StrCat("networks with losses: ", losses);
  }
  static std::string Entry(layers::Placement from, layers::Placement to) {
    auto name = [](const layers::Placement& p) {
      if (!p.sections.empty()) return std::string(p.dim == 0 ? "split(0) in parts" : "sections");
      if (p.groups == 1) return layers::ToString(p);
      return std::string(p.kind == layers::Placement::Kind::kPartial ? "partial/g" : "replicated/g");
    };
    return absl::StrCat(name(from), " -> ", name(to));
  }

  static std::vector<std::string> Expected() {
    std::vector<std::string> expected = {
        "split(0) -> split(1)",         "split(1) -> split(0)",       "split(0) -> replicated",
        "split(1) -> replicated",       "split(1) -> replicated/g",   "replicated -> split(0)",
        "replicated -> split(1)",       "replicated -> replicated/g", "replicated/g -> split(1)",
        "replicated/g -> replicated",   "partial -> split(0)",        "partial -> split(1)",
        "partial -> replicated",        "partial/g -> split(1)",      "partial/g -> replicated/g",
        "split(0) -> sections",         "sections -> split(0)",       "sections -> replicated",
        "replicated -> sections",       "partial -> sections",        kSumOfPartial,
        InParts(Reduction::kAllReduce), InParts(Reduction::kMaster),  "networks with losses: 1",
        "networks with losses: 2"};
    // A fused sum of gradients needs more layers that lie alike: one device has it, with which plans are compared.
    for (layers::Fused fused : {layers::Fused::kAddend, layers::Fused::kMaskSource}) expected.push_back(InOneAction(fused));
    expected.emplace_back(kRecalled);
    for (const char* layer : {"FullyConnected", "Dropout", "Flatten"}) {
      for (bool forward : {false, true}) expected.push_back(InParts(layer, forward));
    }
    for (const char* transfer : {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"}) {
      expected.push_back(InParts(transfer, true));
    }
    for (const char* to :
         {"split(0) in parts -> replicated", "split(0) in parts -> split(1)", "split(1) -> split(0) in parts",
          "partial -> split(0) in parts", "replicated -> split(0) in parts"}) {
      expected.emplace_back(to);
    }
    for (const char* layer : {"Concat", "MaxPool", "AvgPool", "Relu", "Gelu"}) {
      for (bool forward : {false, true}) expected.push_back(InSections(layer, forward));
    }
    const std::vector<std::pair<std::string, std::vector<std::string>>> legal = {
        {"Conv2d", {"replicate", "batch", "column", "group", "row"}},
        {"FullyConnected", {"replicate", "batch", "column", "row"}},
        {"Concat", {"replicate", "batch", "group"}},
        {"Relu", {"replicate", "batch", "group"}},
        {"Gelu", {"replicate", "batch", "group"}},
        {"MaxPool", {"replicate", "batch", "group"}},
        {"AvgPool", {"replicate", "batch", "group"}},
        {"Lrn", {"replicate", "batch", "group"}},
        {"Dropout", {"replicate", "batch", "group"}},
        {"Flatten", {"replicate", "batch", "group"}},
        {"BatchNorm", {"replicate", "batch", "group"}},
        {"LayerNorm", {"replicate", "batch"}},
        {"Add", {"replicate", "batch", "group"}},
        {"AddNarrow", {"replicate", "batch"}},
        {"SoftmaxCrossEntropy", {"replicate", "batch"}}};
    for (const auto& [layer, strategies] : legal) {
      for (const std::string& strategy : strategies) {
        for (int axis : {0, 1}) {
          for (const char* direction : {"forward", "backward"}) {
            expected.push_back(absl::StrCat(layer, " ", strategy, " axis ", axis, " ", direction));
          }
        }
      }
    }
    return expected;
  }

  std::set<std::string> drawn_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_RANDOM_COVERAGE_H_
