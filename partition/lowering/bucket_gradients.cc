#include "absl/strings/str_cat.h"
#include "partition/lowering/layer_names.h"
#include "partition/lowering/passes.h"

namespace colonnade::partition {
namespace {

// Returns in how many parts a bucket is reduced: in one if no other transfer could go between the parts, which is so without
// overlap, or if the plan moves no activations. A sharded reduction always moves a bucket whole, since each device holds the
// one part that it updates.
int ReductionPartsOf(const Lowering& lowering, const GradientBucket& bucket) {
  const Plan& plan = lowering.plan;
  if (!plan.overlap || !MovesActivations(plan)) return 1;
  if (plan.reduction == Reduction::kSharded || lowering.ReductionSize(bucket) == 1) return 1;
  const int64_t bytes = lowering.LocalElements(bucket) * program::SizeInBytes(program::MasterType(lowering.options.dtype));
  return static_cast<int>(bytes / plan.piece_bytes + (bytes % plan.piece_bytes != 0 ? 1 : 0));
}

}  // namespace

// Buckets depend on the graph, on what of it is trained and on the plan, not on the element type: a bucket is closed once
// its gradients would take bucket_bytes in f32, or where the next gradient is reduced over other axes.
absl::Status BucketGradients(Lowering& lowering) {
  const Mesh& mesh = lowering.plan.mesh;
  const LayerNames names(lowering.graph);
  int64_t bytes = 0;
  auto add = [&](int index) {
    ShardedParameter& p = lowering.parameters[index];
    const std::vector<int> axes = PartialAxes(mesh, p.gradient);
    const bool fits =
        !lowering.buckets.empty() && bytes < lowering.plan.bucket_bytes && lowering.buckets.back().axes == axes;
    if (!fits) {
      lowering.buckets.push_back({.name = names.Unlike(absl::StrCat("bucket", lowering.buckets.size())), .axes = axes});
      bytes = 0;
    }
    GradientBucket& bucket = lowering.buckets.back();
    p.bucket = static_cast<int>(lowering.buckets.size()) - 1;
    p.member = static_cast<int>(bucket.parameters.size());
    bucket.parameters.push_back(index);
    bytes += program::ElementCount(LocalShape(mesh, p.placement, p.spec.shape)) * program::SizeInBytes(program::DType::kF32);
  };
  // Backward makes the gradients of the last layer first, and a layer's weight before its bias.
  const int count = static_cast<int>(lowering.parameters.size());
  for (int last = count - 1; last >= 0;) {
    int first = last;
    while (first > 0 && lowering.parameters[first - 1].node == lowering.parameters[last].node) --first;
    for (int i = first; i <= last; ++i) add(i);
    last = first - 1;
  }
  for (GradientBucket& bucket : lowering.buckets) bucket.reduction_parts = ReductionPartsOf(lowering, bucket);
  for (const ShardedParameter& p : lowering.parameters) {
    if (p.bucket < 0) return absl::InternalError(absl::StrCat("BucketGradients: ", p.spec.name, " is in no bucket"));
  }
  return absl::OkStatus();
}

}  // namespace colonnade::partition
