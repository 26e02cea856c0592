#include "partition/legality.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "layers/traits.h"
#include "partition/shardings.h"

namespace colonnade::partition {
namespace {

constexpr int64_t kMostForwardFlops = int64_t{1} << 60;  // backward takes twice as many

}  // namespace

absl::Status ValidatePlan(const Plan& plan, const layers::LayerGraph& graph, int64_t global_batch, program::Mode mode,
                          int64_t micro_batches) {
  return ShardByPlan(plan, graph, global_batch, mode, micro_batches).status();
}

absl::StatusOr<GraphSharding> ShardByPlan(const Plan& plan, const layers::LayerGraph& graph, int64_t global_batch,
                                          program::Mode mode, int64_t micro_batches) {
  RETURN_IF_ERROR(CheckPlanFields(plan));
  RETURN_IF_ERROR(CheckBatchSize(graph, global_batch));
  RETURN_IF_ERROR(CheckPlanLayers(plan, graph));
  return ShardGraph(graph, plan, global_batch, mode, micro_batches);
}

absl::Status CheckPlanLayers(const Plan& plan, const layers::LayerGraph& graph) {
  std::vector<std::string> names;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!layers::IsInput(node.layer)) names.push_back(node.name);
  }
  const absl::flat_hash_set<std::string> known(names.begin(), names.end());
  for (const auto& [layer, strategies] : plan.layers) {
    if (known.contains(layer)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("plan \"%s\": field layers: network \"%s\" has no layer \"%s\" that can be split%s", plan.name,
                        graph.name, layer, base::DidYouMean("; ", layer, names)));
  }
  return absl::OkStatus();
}

int64_t LargestBatch(const layers::LayerGraph& graph) {
  int64_t elements = 0;  // of all activations of one sample
  for (const layers::LayerNode& node : graph.nodes) elements += program::ElementCount(node.sample_shape);
  const int64_t flops = std::max<int64_t>(graph.ForwardFlops(1), 1);
  return std::min(program::kMostElements / std::max<int64_t>(elements, 1), kMostForwardFlops / flops);
}

absl::Status CheckBatchSize(const layers::LayerGraph& graph, int64_t global_batch) {
  if (global_batch < 1) {
    return absl::FailedPreconditionError(absl::StrFormat("batch: expected at least 1, found %d", global_batch));
  }
  const int64_t largest = LargestBatch(graph);
  if (global_batch <= largest) return absl::OkStatus();
  if (largest == 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "batch: network \"%s\" is too large for any; use smaller images, a smaller width or fewer classes", graph.name));
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "batch: expected at most %d (activations or flop of more samples of network \"%s\" cannot be counted), found %d; "
      "use a smaller batch",
      largest, graph.name, global_batch));
}

}  // namespace colonnade::partition
