// The resharding table: how a tensor's placement on one axis becomes another, for values and for gradients alike.
//
//   from \ to     split(0)         split(1)            sections            replicated       replicated/g
//   split(0)      -                all-to-all          all-to-all          all-gather       via replicated
//   split(1)      all-to-all       -                   via replicated      all-gather       all-gather in subgroups
//   sections      all-to-all       via replicated      -  (others: via r.) all-gather       via replicated
//   replicated    slice            slice               slice               -                slice
//   replicated/g  via replicated   slice               via replicated      gather across    -  (another g: via replicated)
//   partial       reduce-scatter   reduce-scatter      reduce-scatter      all-reduce       via replicated
//   partial/g     via replicated   reduce-sc. in sub.  via repl./g         via repl./g      all-reduce in subgroups
//
// A subgroup is the M/g neighbouring positions of an axis of M that share one of g groups of channels; a gather across
// subgroups is one over the positions that have equal places in them. `sections` is split(1) by sections
// (layers::Placement): an entry moves each section as if it were the tensor. So it does of split(0) by sections, which has
// the entries of split(0). Nothing becomes Partial: only a layer makes that.
#ifndef COLONNADE_PARTITION_RESHARD_H_
#define COLONNADE_PARTITION_RESHARD_H_

#include <optional>
#include <vector>

#include "layers/sharding.h"
#include "partition/mesh.h"
#include "program/task.h"

namespace colonnade::partition {

enum class ReshardKind {
  kSlice,                  // a local copy of the part that one keeps
  kAllGather,              // over the axis, or over each subgroup
  kGatherAcrossSubgroups,  // over the positions that have equal places in their subgroups
  kAllToAll,
  kReduceScatter,  // over the axis, or over each subgroup
  kAllReduce,      // over the axis, or over each subgroup; in place
};
const char* Name(ReshardKind kind);
// Returns the collective that does it; none for a slice.
std::optional<program::CollectiveKind> CollectiveOf(ReshardKind kind);

// One entry of the table, on one axis.
struct ReshardEntry {
  int axis = 0;
  ReshardKind kind = ReshardKind::kSlice;
  layers::Placement from, to;
  bool operator==(const ReshardEntry&) const = default;
};

// Returns the entries that lead from `from` to `to`, in order; empty if they are equal. Axes of size 1 need none. Where `to`
// is partial on an axis, and `from` is not the same, they do not lead there, which InsertResharding refuses. An axis
// that cuts within the parts of another is made whole first where the other changes along the same dimension.
std::vector<ReshardEntry> ReshardPath(const Mesh& mesh, TensorPlacement from, const TensorPlacement& to);

// Returns the dimension that `cut` splits: that is `from` of an entry that gathers, `to` of one that scatters or slices.
int DimOf(const layers::Placement& cut);

// Returns the placement of an entry that has sections, if one has: never both.
const layers::Placement& SectionedSide(const ReshardEntry& entry);

// Returns the boxes that an entry moves one by one, of a local tensor of this shape before or after it: its sections, or all
// of it.
std::vector<program::Region> SectionsOf(const ReshardEntry& entry, const program::Shape& local);

// Returns the part `index` of a box that is cut along `dim` into parts of extent `extent`.
program::Region PartOfBox(program::Region box, int dim, int64_t extent, int64_t index);

// Returns which of the equal parts of each section a slice leaves at `position`.
int64_t SlicedPart(const Mesh& mesh, const ReshardEntry& entry, int position);

// Returns the positions that take part with `position`, in member order.
std::vector<int> ReshardGroup(const Mesh& mesh, const ReshardEntry& entry, int position);

// Whether an entry is a two-way exchange, beside which each side copies its own half: an all-gather of two.
bool IsExchange(const Mesh& mesh, const ReshardEntry& entry);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_RESHARD_H_
