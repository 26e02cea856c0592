// The rule `structure`: every id and box is in range, so that the other rules may follow them without a check.

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "program/verify/rules.h"

namespace colonnade::program {
namespace {

constexpr char kStructureRule[] = "structure";

template <class Id>
bool InRange(Id id, size_t count) {
  return id.value >= 0 && static_cast<size_t>(id.value) < count;
}

// True if `a` may hold the bytes of `b`.
bool MayShareBytes(const Buffer& a, const Buffer& b) {
  return a.device == b.device && a.dtype == b.dtype && a.lifetime == b.lifetime;
}

class StorageCheck {
 public:
  StorageCheck(const Program& program, const Buffer& buffer) : program_(program), buffer_(buffer) {}

  absl::Status operator()(const Root&) const { return absl::OkStatus(); }

  absl::Status operator()(const Bucket& bucket) const {
    if (bucket.parts < 1 || bucket.parts > kMaxAttribute || bucket.first_part < 0 || bucket.held_parts < 1 ||
        bucket.held_parts > bucket.parts || bucket.first_part > bucket.parts - bucket.held_parts) {
      return RuleBroken(kStructureRule, Describe(buffer_), " holds ", base::Counted(bucket.held_parts, "part"), " from ",
                        bucket.first_part, " of ", bucket.parts, "; expected a range inside the bucket");
    }
    if (buffer_.shape != Shape{bucket.parts}) {
      return RuleBroken(kStructureRule, Describe(buffer_), " is a bucket of ", base::Counted(bucket.parts, "part"),
                        ", but its shape is ", ToString(buffer_.shape));
    }
    int64_t elements = 0;
    for (size_t i = 0; i < bucket.members.size(); ++i) {
      if (!InRange(bucket.members[i], program_.buffers.size())) {
        return RuleBroken(kStructureRule, Describe(buffer_), " has member ", bucket.members[i].value,
                          ", which is no buffer");
      }
      const Buffer& member = program_.buffer(bucket.members[i]);
      const auto* storage = std::get_if<BucketMember>(&member.storage);
      if (storage == nullptr || *storage != BucketMember{buffer_.id, static_cast<int>(i)} ||
          !MayShareBytes(member, buffer_)) {
        return RuleBroken(kStructureRule, Describe(buffer_), " has as member ", i, " ", Describe(member),
                          ", which is not its member ", i, " of equal device, element type and lifetime");
      }
      elements += ElementCount(member.shape);
      if (elements > kMostElements) return RuleBroken(kStructureRule, Describe(buffer_), " has more than 2^48 elements");
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const BucketMember& member) const {
    if (InRange(member.bucket, program_.buffers.size())) {
      const auto* bucket = std::get_if<Bucket>(&program_.buffer(member.bucket).storage);
      if (bucket != nullptr && member.index >= 0 && static_cast<size_t>(member.index) < bucket->members.size() &&
          bucket->members[member.index] == buffer_.id) {
        return absl::OkStatus();
      }
    }
    return RuleBroken(kStructureRule, Describe(buffer_), " is member ", member.index, " of buffer ", member.bucket.value,
                      ", which does not list it");
  }

 private:
  const Program& program_;
  const Buffer& buffer_;
};

absl::Status CheckBuffers(const Program& program) {
  absl::flat_hash_set<std::pair<int, absl::string_view>> persistent;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.id.value != static_cast<int32_t>(i))
      return RuleBroken(kStructureRule, "buffers[", i, "] has id ", buffer.id.value);
    if (buffer.device < 0 || buffer.device >= program.device_count) {
      return RuleBroken(kStructureRule, Describe(buffer), " is on device ", buffer.device, " of ", program.device_count);
    }
    if (!IsSound(buffer.shape)) {
      return RuleBroken(kStructureRule, Describe(buffer), " has shape ", ToString(buffer.shape), "; expected at most ",
                        kMaxRank, " extents, none negative, and at most 2^48 elements");
    }
    if (buffer.slots != 1 &&
        (buffer.slots != 2 || buffer.lifetime != Lifetime::kStep || !std::holds_alternative<Root>(buffer.storage))) {
      return RuleBroken(kStructureRule, Describe(buffer), " has ", buffer.slots,
                        " slots; expected 1, or 2 of a buffer of the step that is no bucket or member");
    }
    if (buffer.lifetime == Lifetime::kPersistent && !persistent.emplace(buffer.device, buffer.name).second) {
      return RuleBroken(kStructureRule, Describe(buffer), " is not the only persistent buffer of that name on device ",
                        buffer.device);
    }
  }
  for (const Buffer& buffer : program.buffers) {
    RETURN_IF_ERROR(std::visit(StorageCheck(program, buffer), buffer.storage));
    if (!InRange(buffer.layout_as, program.buffers.size()) || program.buffer(buffer.layout_as).shape != buffer.shape ||
        program.buffer(buffer.layout_as).device != buffer.device) {
      return RuleBroken(kStructureRule, Describe(buffer), " shares the layout of buffer ", buffer.layout_as.value,
                        "; expected a buffer of equal device and shape");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckMeshAndGroups(const Program& program) {
  const std::optional<int> devices = DeviceCount(program.mesh);
  if (!devices.has_value()) {
    const std::string sizes =
        absl::StrJoin(program.mesh, " x ", [](std::string* out, const MeshAxis& axis) { absl::StrAppend(out, axis.size); });
    return RuleBroken(kStructureRule, "a mesh of ", sizes, "; expected 1 to ", kMostDevices, " devices");
  }
  if (program.device_count != *devices) {
    return RuleBroken(kStructureRule, "the mesh has ", base::Counted(*devices, "device"), ", but device_count is ",
                      program.device_count);
  }
  if (program.global_batch < 0) return RuleBroken(kStructureRule, "the global batch is ", program.global_batch);
  for (size_t g = 0; g < program.groups.size(); ++g) {
    const std::set<int> members(program.groups[g].begin(), program.groups[g].end());
    if (members.empty() || members.size() != program.groups[g].size() || *members.begin() < 0 ||
        *members.rbegin() >= program.device_count) {
      return RuleBroken(kStructureRule, "group ", g, " is not a list of different devices of ", program.device_count);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUse(const Program& program, const Task& task, const BufferUse& use) {
  if (!InRange(use.buffer, program.buffers.size())) {
    return RuleBroken(kStructureRule, Describe(task), " uses buffer ", use.buffer.value, " of ", program.buffers.size());
  }
  const Buffer& buffer = program.buffer(use.buffer);
  if (buffer.device != task.device) {
    return RuleBroken(kStructureRule, Describe(task), " uses ", Describe(buffer), " of device ", buffer.device,
                      "; data moves between devices in exchanges and collectives alone");
  }
  if (!Fits(use.region, buffer.shape)) {
    return RuleBroken(kStructureRule, Describe(task), " uses the box ", ToString(use.region), " of ", Describe(buffer),
                      " of shape ", ToString(buffer.shape));
  }
  if (use.region.elements() == 0) {
    return RuleBroken(kStructureRule, Describe(task), " uses the box ", ToString(use.region), " of ", Describe(buffer),
                      ", which holds nothing; expected at least one element");
  }
  const Buffer& root = program.buffer(RootOf(program, use.buffer));
  if (const auto* bucket = std::get_if<Bucket>(&root.storage)) {
    const bool inside = root.id == buffer.id
                            ? use.region.offset[0] >= bucket->first_part &&
                                  use.region.offset[0] + use.region.size[0] <= bucket->first_part + bucket->held_parts
                            : bucket->held_parts == bucket->parts;
    if (!inside) {
      return RuleBroken(kStructureRule, Describe(task), " uses ", ToString(use.region), " of ", Describe(buffer),
                        ", but device ", task.device, " holds only parts ", bucket->first_part, " to ",
                        bucket->first_part + bucket->held_parts - 1, " of its bucket");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTasks(const Program& program) {
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.id.value != static_cast<int32_t>(i)) return RuleBroken(kStructureRule, "tasks[", i, "] has id ", task.id.value);
    if (task.device < 0 || task.device >= program.device_count) {
      return RuleBroken(kStructureRule, Describe(task), " is on device ", task.device, " of ", program.device_count);
    }
    const Work& work = task.work;
    if (work.flops < 0 || work.bytes_read < 0 || work.bytes_written < 0 || work.bytes_sent < 0) {
      return RuleBroken(kStructureRule, Describe(task), " states negative work");
    }
    for (const BufferUse& use : task.uses) {
      RETURN_IF_ERROR(CheckUse(program, task, use));
    }
    RETURN_IF_ERROR(CheckOperands(program, task));
  }
  return absl::OkStatus();
}

absl::Status CheckPieces(const Program& program, const std::string& owner, const Shape& shape,
                         const std::vector<Piece>& pieces) {
  if (!IsSound(shape)) return RuleBroken(kStructureRule, owner, " has shape ", ToString(shape));
  for (const Piece& piece : pieces) {
    if (!InRange(piece.buffer, program.buffers.size())) {
      return RuleBroken(kStructureRule, owner, " names buffer ", piece.buffer.value, " of ", program.buffers.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStructure(const Program& program) {
  RETURN_IF_ERROR(CheckMeshAndGroups(program));
  RETURN_IF_ERROR(CheckBuffers(program));
  for (const Parameter& p : program.parameters) {
    const std::string owner = absl::StrCat("parameter \"", p.name, "\"");
    for (const std::vector<Piece>& pieces : p.state) {
      RETURN_IF_ERROR(CheckPieces(program, owner, p.shape, pieces));
    }
  }
  for (const Input& input : program.inputs) {
    const std::string owner = absl::StrCat("input \"", input.name, "\"");
    RETURN_IF_ERROR(CheckPieces(program, owner, input.shape, input.pieces));
  }
  for (const Output& output : program.outputs) {
    const std::string owner = absl::StrCat("output \"", output.name, "\"");
    RETURN_IF_ERROR(CheckPieces(program, owner, output.shape, output.pieces));
  }
  return CheckTasks(program);
}

}  // namespace colonnade::program
