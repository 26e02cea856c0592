// The resharding table: how a tensor's placement on one axis becomes another, for values and for gradients alike.
//
//   from \ to     split(0)         split(1)            replicated       replicated/g
//   split(0)      -                all-to-all          all-gather       via replicated
//   split(1)      all-to-all       -                   all-gather       all-gather in each run
//   replicated    slice            slice               -                slice
//   replicated/g  via replicated   slice               gather of runs   -  (another g: via replicated)
//   partial       reduce-scatter   reduce-scatter      all-reduce       via replicated
//   partial/g     via replicated   reduce-sc. in run   via repl./g      all-reduce in each run
//
// A run is the M/g positions of an axis of M that share one of g groups of channels (layers::Placement). Nothing becomes
// Partial: only a layer makes that.
#ifndef COLONNADE_PARTITION_RESHARD_H_
#define COLONNADE_PARTITION_RESHARD_H_

#include <optional>
#include <vector>

#include "layers/sharding.h"
#include "partition/mesh.h"
#include "program/task.h"

namespace colonnade::partition {

enum class ReshardKind {
  kSlice,       // a local copy of the part that one keeps
  kAllGather,   // over the axis, or over each run
  kGatherRuns,  // over the positions that have equal places in their runs
  kAllToAll,
  kReduceScatter,  // over the axis, or over each run
  kAllReduce,      // over the axis, or over each run; in place
};
const char* Name(ReshardKind kind);
// The collective that does it; none for a slice.
std::optional<program::CollectiveKind> CollectiveOf(ReshardKind kind);

// One entry of the table, on one axis.
struct ReshardEntry {
  int axis = 0;
  ReshardKind kind = ReshardKind::kSlice;
  layers::Placement from, to;
  bool operator==(const ReshardEntry&) const = default;
};

// The entries that lead from `from` to `to`, in order; empty if they are equal. Axes of size 1 need none. An axis that cuts
// within the parts of another is made whole first where the other changes along the same dimension.
std::vector<ReshardEntry> PlanReshard(const Mesh& mesh, TensorPlacement from, const TensorPlacement& to);

// The positions that take part with `position`, in member order.
std::vector<int> ReshardGroup(const Mesh& mesh, const ReshardEntry& entry, int position);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_RESHARD_H_
