#include "partition/lowering/mesh_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

namespace colonnade::partition {
namespace {

using program::BufferId;
using program::Lane;

Lane CommLane(const Plan& plan) { return plan.overlap ? Lane::kComm : Lane::kCompute; }
Lane CopyLane(const Plan& plan) { return plan.overlap ? Lane::kCopy : Lane::kCompute; }

}  // namespace

MeshBuilder::MeshBuilder(const Lowering& lowering, std::vector<int> representative_of)
    : plan_(lowering.plan),
      representative_of_(std::move(representative_of)),
      places_(lowering.plan.mesh.device_count(), ByPosition::kNoPlace),
      program_(lowering.graph.name, lowering.options.mode, lowering.options.global_batch, lowering.options.dtype,
               lowering.plan.mesh.axes) {
  for (int p = 0; p < mesh().device_count(); ++p) {
    if (!representative_of_.empty() && representative_of_[p] != p) continue;
    places_[p] = static_cast<int>(positions_.size());
    positions_.push_back(p);
  }
}

Group MeshBuilder::AllPositions() const {
  Group all(places_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

BufferId MeshBuilder::MemberOf(BufferId bucket, int member) const {
  return std::get<program::Bucket>(buffer(bucket).storage).members[member];
}

BufferId MeshBuilder::AddBuffer(int position, std::string name, program::DType dtype, program::Shape shape,
                                program::Lifetime lifetime) {
  return program_.AddBuffer(device_at(position), std::move(name), dtype, std::move(shape), lifetime);
}

void MeshBuilder::AddCompute(int position, layers::EmittedOp op, Lane lane, const program::Provenance& from) {
  program_.AddCompute(device_at(position), lane, std::move(op.op), std::move(op.uses), op.flops, from);
}

void MeshBuilder::AddCopy(int position, program::BufferUse from_use, program::BufferUse to_use,
                          const program::Provenance& from) {
  AddCompute(position, {program::Copy{}, {std::move(from_use), std::move(to_use)}}, CopyLane(plan_), from);
}

void MeshBuilder::AddExchange(const Group& pair, program::Member first, program::Member second,
                              const program::Provenance& from) {
  program_.AddExchange(device_at(pair[0]), std::move(first), device_at(pair[1]), std::move(second), CommLane(plan_), from);
}

void MeshBuilder::AddCollective(const Group& group, const program::Collective& attributes,
                                absl::FunctionRef<program::Member(size_t m)> member_of, const program::Provenance& from) {
  std::vector<program::Member> members(group.size());
  for (size_t m = 0; m < group.size(); ++m) {
    if (emits(group[m])) members[m] = member_of(m);
  }
  program_.AddCollective(program_.AddGroup(DevicesAt(group)), attributes, std::move(members), CommLane(plan_), from);
}

std::vector<int> MeshBuilder::DevicesAt(const Group& group) const {
  std::vector<int> devices;
  for (int p : group) devices.push_back(device_at(p));
  return devices;
}

void MeshBuilder::ForGroups(const std::function<Group(int)>& group_of, const std::function<void(const Group&)>& emit) {
  std::vector<bool> seen(places_.size());
  for (int p : positions_) {
    if (seen[p]) continue;
    const Group group = group_of(p);
    for (int member : group) seen[member] = true;
    if (!emits_all()) NoteAlike(group, group_of);
    emit(group);
  }
}

bool MeshBuilder::HaveEqualRepresentatives(const Group& a, const Group& b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](int p, int q) { return representative_of_[p] == representative_of_[q]; });
}

void MeshBuilder::NoteAlike(const Group& group, const std::function<Group(int)>& group_of) {
  const auto [noted, is_new] = alike_.try_emplace(DevicesAt(group));
  if (!is_new) return;
  std::vector<bool> seen(places_.size());
  for (int p = 0; p < static_cast<int>(places_.size()); ++p) {
    if (seen[p]) continue;
    const Group other = group_of(p);
    for (int member : other) seen[member] = true;
    if (HaveEqualRepresentatives(group, other)) noted->second.push_back(DevicesAt(other));
  }
}

program::RepresentativeProgram MeshBuilder::BuildRepresentatives() && {
  program::RepresentativeProgram made;
  made.stands_for.resize(representative_of_.size());
  for (int p = 0; p < mesh().device_count(); ++p) made.stands_for[device_at(representative_of_[p])].push_back(device_at(p));
  made.program = std::move(program_).Build();
  made.alike = std::move(alike_);
  return made;
}

}  // namespace colonnade::partition
