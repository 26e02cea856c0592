// Builds the Program of a mesh: a program::Builder that knows the positions of the mesh, and in which groups they meet.
//
// Internal to partition/.
#ifndef COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_
#define COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layers/emit.h"
#include "partition/lowering/lowering.h"
#include "program/builder.h"
#include "program/representative_program.h"

namespace colonnade::partition {

using ByPosition = std::vector<program::BufferId>;  // invalid where nothing is emitted
using Group = std::vector<int>;                     // positions, in member order

class MeshBuilder {
 public:
  // Emits all positions if `representative_of` is empty; else those that are their own representatives.
  MeshBuilder(const Lowering& lowering, std::vector<int> representative_of);

  const Mesh& mesh() const { return plan_.mesh; }
  const std::vector<int>& positions() const { return positions_; }  // that are emitted, 0 among them
  bool emits(int position) const { return emits_[position]; }
  bool emits_all() const { return representative_of_.empty(); }
  int device_at(int position) const { return plan_.device_at(position); }
  ByPosition Nowhere() const { return ByPosition(emits_.size()); }
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
  void AddCollective(const Group& group, const program::Collective& attributes, std::vector<program::Member> members,
                     const program::Provenance& from);

  // Calls `emit` once for each group that has a position that is emitted; group_of(p) is that of position p.
  void ForGroups(const std::function<Group(int)>& group_of, const std::function<void(const Group&)>& emit);

  // Both leave the builder empty. REQUIRES, of the latter: it does not emit all.
  program::Program Build() && { return std::move(program_).Build(); }
  program::RepresentativeProgram BuildRepresentatives() &&;

 private:
  std::vector<int> DevicesAt(const Group& group) const;
  bool HaveEqualRepresentatives(const Group& a, const Group& b) const;
  void NoteAlike(const Group& group, const std::function<Group(int)>& group_of);

  const Plan& plan_;
  const std::vector<int> representative_of_;  // by position; empty: each position is emitted
  std::vector<int> positions_;
  std::vector<bool> emits_;  // by position
  program::Builder program_;
  program::RepresentativeProgram::Alike alike_;
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_MESH_BUILDER_H_
