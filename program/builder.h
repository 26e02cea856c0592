// The only way to make a Program: ids, both sides of an exchange and all members of a collective are made together.
//
// Use: add devices' buffers, then tasks in the order in which each device would run them alone, then Build().
// Not thread safe.
#ifndef COLONNADE_PROGRAM_BUILDER_H_
#define COLONNADE_PROGRAM_BUILDER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "program/program.h"

namespace colonnade::program {

using Uses = absl::InlinedVector<BufferUse, 4>;

// What one member of a collective, or one side of an exchange, brings; nothing, if the Program leaves out its device.
struct Member {
  Uses uses;
  Work work;
};

class Builder {
 public:
  Builder(std::string model, Mode mode, int64_t global_batch, DType dtype, std::vector<MeshAxis> mesh);

  // Reserves room for so many tasks and buffers in all, so that they need not move while the Program grows.
  void Reserve(size_t tasks, size_t buffers);

  BufferId AddBuffer(int device, std::string name, DType dtype, Shape shape, Lifetime lifetime = Lifetime::kStep);
  // Adds a buffer of two slots, which the host fills by a Load on lane kLoad.
  BufferId AddLoaded(int device, std::string name, DType dtype, Shape shape);

  struct BucketSpec {
    int device = 0;
    std::string name;
    DType dtype = DType::kF32;
    Lifetime lifetime = Lifetime::kStep;
    int64_t parts = 1, first_part = 0, held_parts = 1;
    bool equal_parts = false;
    std::vector<std::string> member_names;
    std::vector<Shape> member_shapes;
    std::vector<BufferId> member_layout_as;  // empty: each member has a layout of its own
  };
  BufferId AddBucket(const BucketSpec& spec);  // its members stand in buffer(id).storage

  int AddGroup(const std::vector<int>& devices);  // the same devices in the same order give the same group

  // Return a use of all of `buffer`.
  BufferUse Read(BufferId buffer) const { return {buffer, Region::Whole(shape(buffer)), Access::kRead}; }
  BufferUse Write(BufferId buffer) const { return {buffer, Region::Whole(shape(buffer)), Access::kWrite}; }
  BufferUse Accumulate(BufferId buffer) const { return {buffer, Region::Whole(shape(buffer)), Access::kAccumulate}; }

  // Appends a computation, whose bytes are those of its uses.
  TaskId AddCompute(int device, Lane lane, Op op, Uses uses, int64_t flops, Provenance provenance);

  // Appends both sides of a transfer between devices a and b. A side with a read use sends, one with a write use receives;
  // the caller states the work of each. REQUIRES: a ≠ b; what one sends has the shape and type of what the other receives.
  void AddExchange(int device_a, Member a, int device_b, Member b, Lane lane, Provenance provenance);

  // Appends a collective. `members` are in the order of the group's devices; `attributes` gives kind, dimensions and root,
  // and this function sets group and instance.
  void AddCollective(int group, Collective attributes, std::vector<Member> members, Lane lane, Provenance provenance);

  void AddParameter(Parameter parameter) { program_.parameters.push_back(std::move(parameter)); }
  int AddInput(Input input);
  int AddOutput(Output output);

  const Buffer& buffer(BufferId id) const { return program_.buffers[id.value]; }
  const Shape& shape(BufferId id) const { return buffer(id).shape; }

  // Returns the Program, unscheduled: every task on the lane given, no waits. The builder is empty afterwards.
  Program Build() &&;

 private:
  Task& AddTask(int device, Lane lane, Uses uses, Work work, Provenance provenance);

  Program program_;
  absl::flat_hash_map<std::vector<int>, int> groups_;
  int32_t next_message_ = 0;
  int32_t next_instance_ = 0;
};

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_BUILDER_H_
