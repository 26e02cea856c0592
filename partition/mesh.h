// The mesh: devices arranged along named axes, and where on it the shards of a tensor lie.
//
// A position is the row-major index of its coordinates, the last axis fastest. Plan::device_order says which device sits at
// which position. A tensor's placement on the mesh is one Placement per axis; where several axes cut the same dimension, a
// later axis cuts within the parts of an earlier one.
#ifndef COLONNADE_PARTITION_MESH_H_
#define COLONNADE_PARTITION_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "layers/sharding.h"
#include "program/program.h"

namespace colonnade::partition {

struct Mesh {
  std::vector<program::MeshAxis> axes;

  // Returns the default mesh: `replicas` groups of `columns` devices each.
  static Mesh ReplicasByColumns(int64_t replicas, int64_t columns);

  int axis_count() const { return static_cast<int>(axes.size()); }
  int device_count() const;
  int64_t Coordinate(int position, int axis) const;
  // Returns the position that differs from `position` in its coordinate on `axis` alone.
  int At(int position, int axis, int64_t coordinate) const;
  // Returns the positions that agree with `position` on every axis outside `axes`, in row-major order.
  std::vector<int> AxesGroup(int position, const std::vector<int>& axes) const;
  // Returns where `position` stands in that group.
  int IndexInGroup(int position, const std::vector<int>& axes) const;
  bool operator==(const Mesh&) const = default;
};

using TensorPlacement = absl::InlinedVector<layers::Placement, 2>;  // by axis
std::string ToString(const TensorPlacement& placement);

// Returns the box of a tensor of shape `shape` that `position` holds. Of a split by sections, which is several boxes, its
// size is that of all together, and its offset means nothing. REQUIRES: extents divide, as they do in what layers::Shard
// returns.
program::Region RegionOn(const Mesh& mesh, const TensorPlacement& placement, const program::Shape& shape, int position);

// Consecutive samples.
struct Samples {
  int64_t first = 0, count = 0;
  bool operator==(const Samples&) const = default;
};
// Returns the samples of a batch (dimension 0) that `position` holds, in the order in which they lie there: one range, or of
// a split by sections several. REQUIRES: extents divide.
std::vector<Samples> SamplesOn(const Mesh& mesh, const TensorPlacement& placement, int64_t batch, int position);

// Returns the extents of what each position holds. REQUIRES: extents divide.
program::Shape LocalShape(const Mesh& mesh, const TensorPlacement& placement, const program::Shape& shape);

// Whether each device holds the same part of a tensor in both placements.
bool LieAlike(const Mesh& mesh, const TensorPlacement& a, const TensorPlacement& b);

// Returns the axes over which what the positions hold has still to be summed.
std::vector<int> PartialAxes(const Mesh& mesh, const TensorPlacement& placement);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_MESH_H_
