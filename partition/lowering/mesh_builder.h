// Builds the Program of a mesh: a program::Builder that knows the positions of the mesh, and in which groups they meet.
//
// Internal to partition/.
#ifndef COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_
#define COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "layers/emit.h"
#include "partition/lowering/lowering.h"
#include "program/builder.h"
#include "program/representative_program.h"

namespace colonnade::partition {

using Group = std::vector<int>;  // positions, in member order

// A buffer at each emitted position. It takes room for these positions only.
class ByPosition {
 public:
  ByPosition() = default;
  // `places` (by position, kNoPlace where nothing is emitted) must outlive the result.
  ByPosition(const std::vector<int>& places, size_t count) : places_(&places), buffers_(count) {}

  // REQUIRES: the position is emitted.
  program::BufferId& operator[](int position) { return buffers_[(*places_)[position]]; }
  // Returns no buffer where nothing is emitted.
  program::BufferId operator[](int position) const {
    const int place = (*places_)[position];
    return place == kNoPlace ? program::BufferId{} : buffers_[place];
  }
  bool empty() const { return buffers_.empty(); }

  static constexpr int kNoPlace = -1;

 private:
  const std::vector<int>* places_ = nullptr;
  std::vector<program::BufferId> buffers_;
};

class MeshBuilder {
 public:
  // Emits all positions if `representative_of` is empty; else those that are their own representatives.
  MeshBuilder(const Lowering& lowering, std::vector<int> representative_of);

  const Mesh& mesh() const { return plan_.mesh; }
  const std::vector<int>& positions() const { return positions_; }  // that are emitted, 0 among them
  bool emits(int position) const { return places_[position] != ByPosition::kNoPlace; }
  bool emits_all() const { return representative_of_.empty(); }
  int device_at(int position) const { return plan_.device_at(position); }
  // Returns no buffer at each emitted position, to be filled.
  ByPosition NoBuffers() const { return ByPosition(places_, positions_.size()); }
  Group AllPositions() const;

  // Returns the builder of what belongs to no position, such as parameters and outputs.
  program::Builder& program() { return program_; }
  const program::Buffer& buffer(program::BufferId id) const { return program_.buffer(id); }
  const program::Shape& shape(program::BufferId id) const { return program_.shape(id); }
  program::BufferUse Read(program::BufferId id) const { return program_.Read(id); }
  program::BufferUse Write(program::BufferId id) const { return program_.Write(id); }
  program::BufferUse Accumulate(program::BufferId id) const { return program_.Accumulate(id); }
  // Returns member `member` of a bucket.
  program::BufferId MemberOf(program::BufferId bucket, int member) const;

  program::BufferId AddBuffer(int position, std::string name, program::DType dtype, program::Shape shape,
                              program::Lifetime lifetime = program::Lifetime::kStep);
  void AddCompute(int position, layers::EmittedOp op, program::Lane lane, const program::Provenance& from);
  // Adds a copy beside a transfer, which waits for no compute.
  void AddCopy(int position, program::BufferUse from_use, program::BufferUse to_use, const program::Provenance& from);
  void AddExchange(const Group& pair, program::Member first, program::Member second, const program::Provenance& from);
  // Adds a collective of a group; `member_of(m)` is the side of its m-th position, asked of those that are emitted.
  void AddCollective(const Group& group, const program::Collective& attributes,
                     absl::FunctionRef<program::Member(size_t m)> member_of, const program::Provenance& from);

  // Calls `emit` once for each group that has a position that is emitted; group_of(p) is that of position p.
  void ForGroups(const std::function<Group(int)>& group_of, const std::function<void(const Group&)>& emit);

  // Both leave the builder empty. BuildRepresentatives REQUIRES that `representative_of` was not empty.
  program::Program Build() && { return std::move(program_).Build(); }
  program::RepresentativeProgram BuildRepresentatives() &&;

 private:
  std::vector<int> DevicesAt(const Group& group) const;
  bool HaveEqualRepresentatives(const Group& a, const Group& b) const;
  void NoteAlike(const Group& group, const std::function<Group(int)>& group_of);

  const Plan& plan_;
  const std::vector<int> representative_of_;  // by position; empty: each position is emitted
  std::vector<int> positions_;
  std::vector<int> places_;  // by position: where it stands in `positions_`
  program::Builder program_;
  program::RepresentativeProgram::Alike alike_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_
