#include "partition/emitter.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "partition/first_alike.h"
#include "partition/passes.h"
#include "program/op_traits.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::Operand;
using program::BufferId;
using program::Lane;
using program::Pass;

constexpr int kMany = 64;  // devices, whose tasks are counted first, which takes a moment

enum HostInput { kImages = 0, kLabels = 1, kScalars = 2 };

// [n,C,…] as [n,…,C].
program::Shape ChannelsLast(program::Shape shape) {
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}
program::Region ChannelsLast(const program::Region& box) { return {ChannelsLast(box.offset), ChannelsLast(box.size)}; }

// The numbers of the channels from `first` on.
std::vector<double> OfChannels(const std::vector<double>& numbers, int64_t first, int64_t count) {
  return {numbers.begin() + first, numbers.begin() + first + count};
}

}  // namespace

program::Program EmitTasks(const Lowering& lowering) { return Emitter(lowering).Run(); }

program::Representatives EmitRepresentatives(const Lowering& lowering, const KindOfDevices& kind_of_devices) {
  return Emitter(lowering, FirstAlike(lowering, kind_of_devices)).RunRepresentatives();
}

Emitter::Emitter(const Lowering& lowering) : Emitter(lowering, std::vector<int>()) {}

Emitter::Emitter(const Lowering& lowering, std::vector<int> first_alike)
    : lowering_(lowering),
      mesh_(lowering.plan.mesh),
      first_alike_(std::move(first_alike)),
      emits_(lowering.plan.mesh.device_count(), false),
      comm_lane_(lowering.plan.overlap ? Lane::kComm : Lane::kCompute),
      copy_lane_(lowering.plan.overlap ? Lane::kCopy : Lane::kCompute),
      builder_(lowering.graph.name, lowering.options.mode, lowering.options.global_batch, lowering.options.dtype,
               lowering.plan.mesh.axes),
      buffers_(lowering.values.size(), Nowhere()) {
  for (int p = 0; p < mesh_.device_count(); ++p) {
    if (!first_alike_.empty() && first_alike_[p] != p) continue;
    positions_.push_back(p);
    emits_[p] = true;
  }
  const int64_t n = lowering.options.global_batch;
  const program::Shape images = lowering.graph.OutputShape(LayerId{0}, n);
  const bool bytes = lowering.options.pixels.has_value();
  inputs_ = {{.name = "images",
              .host_dtype = bytes ? program::DType::kU8 : program::DType::kF32,
              .shape = bytes ? ChannelsLast(images) : images},
             {.name = "labels", .host_dtype = program::DType::kI32, .shape = {n}},
             {.name = "scalars", .host_dtype = program::DType::kF64, .shape = {program::kStepScalarCount}}};
}

program::Program Emitter::Run() && {
  if (first_alike_.empty() && mesh_.device_count() >= kMany) Reserve();
  AddBuckets();
  AddState();
  AddScalarsAndFlags();
  AddGates();
  PlaceWhatIsThere();
  for (const Action& action : lowering_.actions) {
    std::visit([&](const auto& what) { Emit(action, what); }, action.what);
  }
  AddParameters();
  AddOutputs();
  for (program::Input& input : inputs_) builder_.AddInput(std::move(input));
  return std::move(builder_).Build();
}

program::Representatives Emitter::RunRepresentatives() && {
  program::Representatives made;
  made.stands_for.resize(first_alike_.size());
  for (int p = 0; p < mesh_.device_count(); ++p) {
    made.stands_for[lowering_.plan.device_at(first_alike_[p])].push_back(lowering_.plan.device_at(p));
  }
  made.program = std::move(*this).Run();
  made.alike = std::move(alike_);
  return made;
}

// Devices that do alike have as many tasks and buffers.
void Emitter::Reserve() {
  const program::Representatives counted = EmitRepresentatives(lowering_, nullptr);
  size_t tasks = 0, buffers = 0;
  for (const program::Task& task : counted.program.tasks) tasks += counted.stands_for[task.device].size();
  for (const program::Buffer& buffer : counted.program.buffers) buffers += counted.stands_for[buffer.device].size();
  builder_.Reserve(tasks, buffers);
}

std::vector<int> Emitter::DevicesAt(const Group& group) const {
  std::vector<int> devices;
  for (int p : group) devices.push_back(lowering_.plan.device_at(p));
  return devices;
}

void Emitter::ForGroups(const std::function<Group(int)>& group_of, const std::function<void(const Group&)>& emit) {
  std::vector<bool> seen(emits_.size());
  for (int p : positions_) {
    if (seen[p]) continue;
    const Group group = group_of(p);
    for (int member : group) seen[member] = true;
    if (!first_alike_.empty()) NoteAlike(group, group_of);
    emit(group);
  }
}

bool Emitter::AreAlike(const Group& a, const Group& b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](int p, int q) { return first_alike_[p] == first_alike_[q]; });
}

void Emitter::NoteAlike(const Group& group, const std::function<Group(int)>& group_of) {
  const auto [noted, is_new] = alike_.try_emplace(DevicesAt(group));
  if (!is_new) return;
  std::vector<bool> seen(emits_.size());
  for (int p = 0; p < static_cast<int>(emits_.size()); ++p) {
    if (seen[p]) continue;
    const Group other = group_of(p);
    for (int member : other) seen[member] = true;
    if (AreAlike(group, other)) noted->second.push_back(DevicesAt(other));
  }
}

void Emitter::AddScalarsAndFlags() {
  scalars_ = Nowhere();
  if (lowering_.train()) flags_ = Nowhere();
  for (int p : positions_) {
    const int device = lowering_.plan.device_at(p);
    const BufferId scalars = builder_.AddLoaded(device, "scalars", program::DType::kF64, {program::kStepScalarCount});
    scalars_[p] = scalars;
    AddLoad(p, kScalars, scalars, program::Region::Whole(builder_.shape(scalars)), {"scalars", Pass::kInput});
    if (!lowering_.train()) continue;
    flags_[p] =
        builder_.AddBuffer(device, "finite", program::DType::kI32, {static_cast<int64_t>(lowering_.parameters.size())});
  }
}

void Emitter::PlaceWhatIsThere() {
  for (size_t v = 0; v < lowering_.values.size(); ++v) {
    const Value& value = lowering_.values[v];
    if (value.state >= 0) buffers_[v] = state_[value.state];
    if (value.parameter < 0) continue;
    const ShardedParameter& parameter = lowering_.parameters[value.parameter];
    const BucketBuffers& bucket = buckets_[parameter.bucket];
    for (int p : positions_) {
      buffers_[v][p] = MemberBuffer((value.is_gradient ? bucket.gradients : bucket.weights)[p], parameter.member);
    }
  }
}

BufferId Emitter::Make(ValueId id, int position) {
  const Value& value = lowering_.value(id);
  BufferId& buffer = buffers_[id.value][position];
  if (buffer.valid()) return buffer;
  if (value.in_place_of.valid()) {
    buffer = At(value.in_place_of, position);
  } else {
    buffer = builder_.AddBuffer(lowering_.plan.device_at(position), value.name, *value.dtype,
                                RegionOn(mesh_, value.placement, value.shape, position).size);
  }
  return buffer;
}

void Emitter::MakeOutputs(const Action& action) {
  for (ValueId output : action.outputs) {
    if (!output.valid()) continue;
    for (int p : positions_) Make(output, p);
  }
}

void Emitter::ShareOutputs(const Action& action) {
  for (ValueId output : action.outputs) {
    if (output.valid()) buffers_[output.value] = buffers_[action.inputs[0].value.value];
  }
}

Operand Emitter::OperandAt(ValueId id, int position) const {
  const Value& value = lowering_.value(id);
  const BufferId buffer = At(id, position);
  return {buffer, builder_.shape(buffer), value.shape, RegionOn(mesh_, value.placement, value.shape, position).offset};
}

void Emitter::Cut(std::optional<int> part, program::Region& rows) const {
  if (!part.has_value()) return;
  rows.size[0] /= lowering_.parts;
  rows.offset[0] += *part * rows.size[0];
}

Operand Emitter::RowsAt(ValueId id, int position, std::optional<int> part) const {
  Operand rows = OperandAt(id, position);
  if (!part.has_value()) return rows;
  program::Region box = program::Region::Whole(rows.shape);
  Cut(part, box);
  rows.shape = box.size;
  rows.first_row = box.offset[0];
  rows.offset[0] = SampleAt(lowering_.value(id), position, rows.first_row);
  return rows;
}

int64_t Emitter::SampleAt(const Value& value, int position, int64_t row) const {
  for (const Samples& held : SamplesOn(mesh_, value.placement, value.shape[0], position)) {
    if (row < held.count) return held.first + row;
    row -= held.count;
  }
  return value.shape[0];
}

void Emitter::AddCompute(int position, layers::EmittedOp op, Lane lane, const program::Provenance& from) {
  builder_.AddCompute(lowering_.plan.device_at(position), lane, std::move(op.op), std::move(op.uses), op.flops, from);
}

// What the host gives is copied as it is, while the step before computes; images then become what the network reads.
void Emitter::Emit(const Action& action, const LoadInput&) {
  const Value& value = lowering_.value(action.outputs[0]);
  for (int p : positions_) {
    const std::vector<Samples> held = SamplesOn(mesh_, value.placement, value.shape[0], p);
    int64_t row = 0;
    for (const Samples& samples : held) {
      if (value.host_input == kImages) {
        LoadImages(action, p, samples, row);
      } else {
        LoadLabels(action, p, samples, held.size() == 1 ? std::nullopt : std::optional(row));
      }
      row += samples.count;
    }
  }
}

void Emitter::LoadImages(const Action& action, int position, const Samples& samples, int64_t row) {
  const ValueId id = action.outputs[0];
  const Value& value = lowering_.value(id);
  const bool are_bytes = lowering_.options.pixels.has_value();
  program::Region local = RegionOn(mesh_, value.placement, value.shape, position);
  local.size[0] = samples.count;
  local.offset[0] = 0;
  const BufferId loaded = AddLoaded(action, position, value.name + ".host", samples);
  Make(id, position);
  Operand y = OperandAt(id, position);
  y.shape[0] = samples.count;
  y.first_row = row;
  program::BufferUse x{loaded, are_bytes ? ChannelsLast(local) : local, program::Access::kRead};
  AddCompute(position, {ConvertImages(local), {std::move(x), layers::Write(y)}}, Lane::kCompute,
             {action.from.layer, Pass::kForward});
}

void Emitter::LoadLabels(const Action& action, int position, const Samples& samples, std::optional<int64_t> row) {
  const ValueId id = action.outputs[0];
  const Value& value = lowering_.value(id);
  const BufferId loaded = AddLoaded(action, position, value.name, samples);
  if (!row.has_value()) {
    buffers_[id.value][position] = loaded;
    return;
  }
  Make(id, position);
  const Operand part{.buffer = At(id, position), .shape = {samples.count}, .first_row = *row};
  AddCompute(position, {program::Copy{}, {builder_.Read(loaded), layers::Write(part)}}, Lane::kCompute,
             {action.from.layer, Pass::kForward});
}

// Whole samples, which lie in one range of the host's memory.
BufferId Emitter::AddLoaded(const Action& action, int position, std::string name, const Samples& samples) {
  const Value& value = lowering_.value(action.outputs[0]);
  program::Input& input = inputs_[value.host_input];
  program::Region box = program::Region::Whole(input.shape);
  box.size[0] = samples.count;
  box.offset[0] = value.first_sample + samples.first;
  const BufferId loaded =
      builder_.AddLoaded(lowering_.plan.device_at(position), std::move(name), input.host_dtype, box.size);
  AddLoad(position, value.host_input, loaded, std::move(box), action.from);
  return loaded;
}

program::Op Emitter::ConvertImages(const program::Region& local) const {
  if (!lowering_.options.pixels.has_value()) return program::Copy{};
  const program::PixelScaling& pixels = *lowering_.options.pixels;
  const int64_t first = local.offset[1], count = local.size[1];
  return program::Normalise{OfChannels(pixels.scale, first, count), OfChannels(pixels.shift, first, count)};
}

void Emitter::AddLoad(int position, int input, BufferId loaded, program::Region box, const program::Provenance& from) {
  inputs_[input].pieces.push_back({loaded, std::move(box)});
  AddCompute(position, {program::Load{input}, {builder_.Write(loaded)}}, Lane::kLoad, from);
}

void Emitter::Emit(const Action& action, const RunStage& run) {
  const layers::Stage& stage = lowering_.stage(run);
  if (!stage.emit) return ShareOutputs(action);
  MakeOutputs(action);
  for (int p : positions_) {
    layers::StageShard shard;
    shard.scalars = {scalars_[p], {program::kStepScalarCount}};
    if (!gates_.empty()) shard.gate = {gates_[p], {program::kGateCount}};
    shard.batch = lowering_.options.global_batch;
    shard.first_sample = run.micro_batch * (shard.batch / lowering_.options.micro_batches);
    shard.epilogue = run.epilogue;
    const auto operand = [&](layers::Slot slot, ValueId value) {
      return layers::HasRows(slot) ? RowsAt(value, p, action.part) : OperandAt(value, p);
    };
    const auto fused = [&](layers::Fused which, ValueId value) {
      return layers::HasRows(which) ? RowsAt(value, p, action.part) : OperandAt(value, p);
    };
    for (size_t k = 0; k < stage.reads.size(); ++k) {
      if (action.inputs[k].value.valid()) shard.Put(stage.reads[k], operand(stage.reads[k], action.inputs[k].value));
    }
    for (size_t k = 0; k < stage.writes.size(); ++k) {
      if (action.outputs[k].valid()) shard.Put(stage.writes[k], operand(stage.writes[k], action.outputs[k]));
    }
    for (size_t k = 0; k < run.fused_reads.size(); ++k) {
      shard.Put(run.fused_reads[k], fused(run.fused_reads[k], action.inputs[stage.reads.size() + k].value));
    }
    for (size_t k = 0; k < run.fused_writes.size(); ++k) {
      shard.Put(run.fused_writes[k], fused(run.fused_writes[k], action.outputs[stage.writes.size() + k]));
    }
    for (layers::EmittedOp& op : stage.emit(shard)) AddCompute(p, std::move(op), Lane::kCompute, action.from);
  }
}

// Kernels read parameters, and sums over devices, in the type of activations.
void Emitter::Emit(const Action& action, const Round&) {
  MakeOutputs(action);
  for (int p : positions_) {
    const Operand master = RowsAt(action.inputs[0].value, p, action.part),
                  rounded = RowsAt(action.outputs[0], p, action.part);
    AddCompute(p, {program::Copy{}, {layers::Read(master), layers::Write(rounded)}}, Lane::kCompute, action.from);
  }
}

void Emitter::Emit(const Action& action, const CountLabels&) {
  MakeOutputs(action);
  for (int p : positions_) {
    program::Uses uses;
    for (const ActionOperand& labels : action.inputs) uses.push_back(layers::Read(OperandAt(labels.value, p)));
    uses.push_back(layers::Write(OperandAt(action.outputs[0], p)));
    AddCompute(p, {program::CountLabels{}, std::move(uses)}, Lane::kCompute, action.from);
  }
}

void Emitter::Emit(const Action& action, const SumGradients&) { EmitSum(action); }

void Emitter::EmitSum(const Action& action) {
  for (int p : positions_) {
    program::Uses uses;
    for (const ActionOperand& operand : action.inputs) uses.push_back(layers::Read(OperandAt(operand.value, p)));
    Make(action.outputs[0], p);
    const Operand y = OperandAt(action.outputs[0], p);
    uses.push_back(layers::Write(y));
    const int64_t sums = static_cast<int64_t>(action.inputs.size()) - 1;
    AddCompute(p, {program::Sum{}, std::move(uses), sums * program::ElementCount(y.shape)}, Lane::kCompute, action.from);
  }
}

}  // namespace colonnade::partition
