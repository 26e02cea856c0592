#include "partition/mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace colonnade::partition {
namespace {

using layers::Placement;

// Product of the axis sizes after `axis`: how far apart neighbours on the axis are.
int64_t Stride(const Mesh& mesh, int axis) {
  int64_t stride = 1;
  for (int a = axis + 1; a < mesh.axis_count(); ++a) stride *= mesh.axes[a].size;
  return stride;
}

bool IsAmong(const std::vector<int>& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

}  // namespace

Mesh Mesh::ReplicasByColumns(int64_t replicas, int64_t columns) { return Mesh{{{"data", replicas}, {"model", columns}}}; }

int Mesh::device_count() const {
  int64_t count = 1;
  for (const program::MeshAxis& axis : axes) count *= axis.size;
  return static_cast<int>(count);
}

int64_t Mesh::Coordinate(int position, int axis) const { return position / Stride(*this, axis) % axes[axis].size; }

int Mesh::At(int position, int axis, int64_t coordinate) const {
  return position + static_cast<int>((coordinate - Coordinate(position, axis)) * Stride(*this, axis));
}

std::vector<int> Mesh::AxesGroup(int position, const std::vector<int>& group_axes) const {
  std::vector<int> group = {position};
  for (int a = 0; a < axis_count(); ++a) {
    if (!IsAmong(group_axes, a)) continue;
    std::vector<int> longer;
    for (int member : group) {
      for (int64_t c = 0; c < axes[a].size; ++c) longer.push_back(At(member, a, c));
    }
    group = std::move(longer);
  }
  return group;
}

int Mesh::IndexInGroup(int position, const std::vector<int>& group_axes) const {
  int64_t index = 0;
  for (int a = 0; a < axis_count(); ++a) {
    if (IsAmong(group_axes, a)) index = index * axes[a].size + Coordinate(position, a);
  }
  return static_cast<int>(index);
}

std::string ToString(const TensorPlacement& placement) {
  return absl::StrCat(
      "(", absl::StrJoin(placement, ", ", [](std::string* out, const Placement& p) { out->append(layers::ToString(p)); }),
      ")");
}

program::Region RegionOn(const Mesh& mesh, const TensorPlacement& placement, const program::Shape& shape, int position) {
  program::Region region = program::Region::Whole(shape);
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const Placement& p = placement[a];
    const int64_t size = mesh.axes[a].size;
    const int64_t coordinate = mesh.Coordinate(position, a);
    if (p.kind == Placement::Kind::kSplit) {
      region.size[p.dim] /= size;
      region.offset[p.dim] += coordinate * region.size[p.dim];
    } else if (p.groups > 1) {
      region.size[1] /= p.groups;
      region.offset[1] += coordinate / (size / p.groups) * region.size[1];
    }
  }
  return region;
}

namespace {

// Appends those of `held` that lie from place `first` on; what follows on the last range lengthens it.
void AppendRange(const std::vector<Samples>& held, int64_t first, int64_t count, std::vector<Samples>& to) {
  for (const Samples& range : held) {
    const int64_t begin = std::max(first, int64_t{0}), end = std::min(first + count, range.count);
    first -= range.count;
    if (begin >= end) continue;
    const Samples part = {range.first + begin, end - begin};
    if (!to.empty() && to.back().first + to.back().count == part.first) {
      to.back().count += part.count;
    } else {
      to.push_back(part);
    }
  }
}

}  // namespace

std::vector<Samples> SamplesOn(const Mesh& mesh, const TensorPlacement& placement, int64_t batch, int position) {
  std::vector<Samples> held = {{0, batch}};
  int64_t count = batch;
  for (int a = 0; a < mesh.axis_count(); ++a) {
    const Placement& p = placement[a];
    if (p.kind != Placement::Kind::kSplit || p.dim != 0) continue;
    const int64_t size = mesh.axes[a].size, coordinate = mesh.Coordinate(position, a);
    std::vector<Samples> left;
    int64_t begin = 0;
    for (int64_t extent : p.sections.empty() ? std::vector<int64_t>{count} : p.sections) {
      AppendRange(held, begin + coordinate * extent / size, extent / size, left);
      begin += extent;
    }
    held = std::move(left);
    count /= size;
  }
  return held;
}

program::Shape LocalShape(const Mesh& mesh, const TensorPlacement& placement, const program::Shape& shape) {
  return RegionOn(mesh, placement, shape, 0).size;
}

bool LieAlike(const Mesh& mesh, const TensorPlacement& a, const TensorPlacement& b) {
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (mesh.axes[axis].size > 1 && a[axis] != b[axis]) return false;
  }
  return a.size() == b.size();
}

std::vector<int> PartialAxes(const Mesh& mesh, const TensorPlacement& placement) {
  std::vector<int> axes;
  for (int a = 0; a < static_cast<int>(placement.size()); ++a) {
    if (mesh.axes[a].size > 1 && placement[a].kind == Placement::Kind::kPartial) axes.push_back(a);
  }
  return axes;
}

}  // namespace colonnade::partition
