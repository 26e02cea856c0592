#include "program/builder.h"

#include <utility>

#include "program/work.h"

namespace colonnade::program {

Builder::Builder(std::string model, Mode mode, int64_t global_batch, DType dtype, std::vector<MeshAxis> mesh) {
  program_.model = std::move(model);
  program_.mode = mode;
  program_.global_batch = global_batch;
  program_.dtype = dtype;
  program_.mesh = std::move(mesh);
  for (const MeshAxis& axis : program_.mesh) program_.device_count *= static_cast<int>(axis.size);
}

BufferId Builder::AddBuffer(int device, std::string name, DType dtype, Shape shape, Lifetime lifetime) {
  const BufferId id{static_cast<int32_t>(program_.buffers.size())};
  program_.buffers.push_back({.id = id,
                              .device = device,
                              .name = std::move(name),
                              .dtype = dtype,
                              .shape = std::move(shape),
                              .lifetime = lifetime,
                              .storage = Root{},
                              .layout_as = id});
  return id;
}

void Builder::Reserve(size_t tasks, size_t buffers) {
  program_.tasks.reserve(tasks);
  program_.buffers.reserve(buffers);
}

BufferId Builder::AddLoaded(int device, std::string name, DType dtype, Shape shape) {
  const BufferId id = AddBuffer(device, std::move(name), dtype, std::move(shape));
  program_.buffer(id).slots = 2;
  return id;
}

BufferId Builder::AddBucket(const BucketSpec& spec) {
  const BufferId id = AddBuffer(spec.device, spec.name, spec.dtype, {spec.parts}, spec.lifetime);
  Bucket bucket{{}, spec.parts, spec.first_part, spec.held_parts, spec.equal_parts};
  for (size_t i = 0; i < spec.member_shapes.size(); ++i) {
    const BufferId member = AddBuffer(spec.device, spec.member_names[i], spec.dtype, spec.member_shapes[i], spec.lifetime);
    program_.buffer(member).storage = BucketMember{id, static_cast<int>(i)};
    if (!spec.member_layout_as.empty() && spec.member_layout_as[i].valid()) {
      program_.buffer(member).layout_as = spec.member_layout_as[i];
    }
    bucket.members.push_back(member);
  }
  program_.buffer(id).storage = std::move(bucket);
  return id;
}

int Builder::AddGroup(const std::vector<int>& devices) {
  const auto [it, added] = groups_.try_emplace(devices, static_cast<int>(program_.groups.size()));
  if (added) program_.groups.push_back(devices);
  return it->second;
}

Task& Builder::AddTask(int device, Lane lane, Uses uses, Work work, Provenance provenance) {
  Task& task = program_.tasks.emplace_back();
  task.id = TaskId{static_cast<int32_t>(program_.tasks.size() - 1)};
  task.device = device;
  task.lane = lane;
  task.uses = std::move(uses);
  task.work = work;
  task.provenance = std::move(provenance);
  return task;
}

TaskId Builder::AddCompute(int device, Lane lane, Op op, Uses uses, int64_t flops, Provenance provenance) {
  const Work work = WorkOf(op, uses, flops, [&](size_t k) { return BytesOf(program_, uses[k]); });
  Task& task = AddTask(device, lane, std::move(uses), work, std::move(provenance));
  task.body = Compute{std::move(op)};
  return task.id;
}

void Builder::AddExchange(int device_a, Member a, int device_b, Member b, Lane lane, Provenance provenance) {
  const auto add_side = [&](int device, int peer, Member side) {
    if (side.uses.empty()) return;
    Exchange exchange{.message = next_message_, .peer = peer};
    for (const BufferUse& use : side.uses) {
      if (use.access == Access::kRead) {
        exchange.sends = true;
      } else {
        exchange.receives = true;
      }
    }
    AddTask(device, lane, std::move(side.uses), side.work, provenance).body = exchange;
  };
  add_side(device_a, device_b, std::move(a));
  add_side(device_b, device_a, std::move(b));
  ++next_message_;
}

void Builder::AddCollective(int group, Collective attributes, std::vector<Member> members, Lane lane,
                            Provenance provenance) {
  attributes.group = group;
  attributes.instance = next_instance_++;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m].uses.empty()) continue;
    AddTask(program_.groups[group][m], lane, std::move(members[m].uses), members[m].work, provenance).body = attributes;
  }
}

int Builder::AddInput(Input input) {
  program_.inputs.push_back(std::move(input));
  return static_cast<int>(program_.inputs.size()) - 1;
}

int Builder::AddOutput(Output output) {
  program_.outputs.push_back(std::move(output));
  return static_cast<int>(program_.outputs.size()) - 1;
}

Program Builder::Build() && { return std::move(program_); }

}  // namespace colonnade::program
