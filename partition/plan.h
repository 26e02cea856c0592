// A plan: how one network is spread over a mesh. One strategy per layer and axis; it knows no kernels and no times.
//
// File form (version 1), every field but version, mesh and layers optional:
//   { "colonnade_plan": 1, "name": "hybrid", "mesh": [{"name": "data", "size": 2}, {"name": "model", "size": 2}],
//     "layers": {"conv1": ["batch", "column"], …}, "reduction": "all-reduce", "overlap": true, "bucket_bytes": 8388608,
//     "piece_bytes": 16777216, "transfer_parts": 1, "device_order": [0, 1, 2, 3] }
#ifndef COLONNADE_PARTITION_PLAN_H_
#define COLONNADE_PARTITION_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layers/graph.h"
#include "partition/mesh.h"

namespace colonnade::partition {

enum class Reduction {
  kAllReduce,  // gradients summed everywhere, every replica updates
  kSharded,    // reduce-scatter, each device updates its part, all-gather of the parameters
  kMaster,     // gradients to the first device of the group, parameters back: what the 2013 paper did
};
// All of them: what files and flags may name, and what a search tries.
inline constexpr Reduction kReductions[] = {Reduction::kAllReduce, Reduction::kSharded, Reduction::kMaster};
const char* Name(Reduction reduction);
std::optional<Reduction> ReductionFromName(absl::string_view name);
std::vector<std::string> ReductionNames();  // all of them

inline constexpr int64_t kLeastPieceBytes = 1024;  // smaller ones are all overhead, or less than backends align to
inline constexpr int kMostTransferParts = 64;
inline constexpr int64_t kMostPlanBytes = int64_t{1} << 40;  // of bucket_bytes and piece_bytes: more than any device has

inline constexpr char kAutoPlan[] = "auto";  // the name of plans that a search has made (planner.h)

struct Plan {
  std::string name;
  Mesh mesh;
  std::map<std::string, std::vector<layers::Strategy>> layers;  // by layer name, one strategy per axis; not for inputs
  Reduction reduction = Reduction::kAllReduce;
  bool overlap = true;             // off: transfers and reductions run in line with compute, reductions after backward
  int64_t bucket_bytes = 8 << 20;  // gradients are reduced in buckets of at least this many bytes
  int64_t piece_bytes = 16 << 20;  // most bytes of a bucket in one reduction: a transfer of activations waits for no more
  // Parts of the batch: fully connected layers compute one while the activations of another move to or from them. There are
  // fewer where the batch of a device does not divide (shardings.h).
  int transfer_parts = 1;
  std::vector<int> device_order;   // device at each mesh position; empty: the identity
  std::vector<std::string> notes;  // why a named plan gave a layer less than it asked for; not in the file

  int device_at(int position) const { return device_order.empty() ? position : device_order[position]; }
};

// What a caller sets whatever the plan's own is.
struct PlanSettings {
  std::optional<Reduction> reduction;
  std::optional<bool> overlap;
  std::optional<int64_t> bucket_bytes, piece_bytes;
  std::optional<int> transfer_parts;

  void ApplyTo(Plan& plan) const;
};

std::string PlanToJson(const Plan& plan);

// Reads a plan. InvalidArgument names field, expected and found; unknown fields are errors, and what CheckPlanFields
// refuses. It does not check the plan against a network.
absl::StatusOr<Plan> PlanFromJson(absl::string_view json);

// Checks what can be said of a plan without a network: the mesh has axes of different names and at most kMostDevices
// devices, numbers are in their ranges, each layer has one strategy for each axis, and `device_order` has each device once.
// InvalidArgument names field, expected and found.
absl::Status CheckPlanFields(const Plan& plan);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLAN_H_
