// What the host gives each step: images, labels and scalars.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partition/lowering/emission.h"
#include "program/strides.h"

namespace colonnade::partition {
namespace {

using layers::LayerId;
using layers::Operand;
using program::BufferId;
using program::Lane;
using program::Pass;

program::Region ChannelsLast(const program::Region& box) {
  return {program::ChannelsLast(box.offset), program::ChannelsLast(box.size)};
}

// The numbers of the channels from `first` on.
std::vector<double> OfChannels(const std::vector<double>& numbers, int64_t first, int64_t count) {
  return {numbers.begin() + first, numbers.begin() + first + count};
}

void AddLoad(Emission& e, int position, int input, BufferId loaded, program::Region box, const program::Provenance& from) {
  e.inputs[input].pieces.push_back({loaded, std::move(box)});
  e.builder.AddCompute(position, {program::Load{input}, {e.builder.Write(loaded)}}, Lane::kLoad, from);
}

// Whole samples, which lie in one range of the host's memory.
BufferId AddLoaded(Emission& e, const Action& action, int position, std::string name, const Samples& samples) {
  const Value& value = e.lowering.value(action.outputs[0]);
  const auto& part = std::get<HostInputPart>(value.role);
  const program::Input& input = e.inputs[part.input];
  program::Region box = program::Region::Whole(input.shape);
  box.size[0] = samples.count;
  box.offset[0] = part.first_sample + samples.first;
  const BufferId loaded =
      e.builder.program().AddLoaded(e.builder.device_at(position), std::move(name), input.host_dtype, box.size);
  AddLoad(e, position, part.input, loaded, std::move(box), action.provenance);
  return loaded;
}

program::Op ConvertImages(const Emission& e, const program::Region& local) {
  if (!e.lowering.options.pixels.has_value()) return program::Copy{};
  const program::PixelScaling& pixels = *e.lowering.options.pixels;
  const int64_t first = local.offset[1], count = local.size[1];
  return program::Normalise{OfChannels(pixels.scale, first, count), OfChannels(pixels.shift, first, count)};
}

void LoadImages(Emission& e, const Action& action, int position, const Samples& samples, int64_t row) {
  const ValueId id = action.outputs[0];
  const Value& value = e.lowering.value(id);
  const bool are_bytes = e.lowering.options.pixels.has_value();
  program::Region local = RegionOn(e.builder.mesh(), value.placement, value.shape, position);
  local.size[0] = samples.count;
  local.offset[0] = 0;
  const BufferId loaded = AddLoaded(e, action, position, value.name + ".host", samples);
  e.values.Make(id, position);
  Operand y = e.values.OperandAt(id, position);
  y.shape[0] = samples.count;
  y.first_row = row;
  program::BufferUse x{loaded, are_bytes ? ChannelsLast(local) : local, program::Access::kRead};
  e.builder.AddCompute(position, {ConvertImages(e, local), {std::move(x), layers::Write(y)}}, Lane::kCompute,
                       {action.provenance.layer, Pass::kForward});
}

void LoadLabels(Emission& e, const Action& action, int position, const Samples& samples, std::optional<int64_t> row) {
  const ValueId id = action.outputs[0];
  const Value& value = e.lowering.value(id);
  const BufferId loaded = AddLoaded(e, action, position, value.name, samples);
  if (!row.has_value()) {
    e.values.Place(id, position, loaded);
    return;
  }
  e.values.Make(id, position);
  const Operand part{.buffer = e.values.At(id, position), .shape = {samples.count}, .first_row = *row};
  e.builder.AddCompute(position, {program::Copy{}, {e.builder.Read(loaded), layers::Write(part)}}, Lane::kCompute,
                       {action.provenance.layer, Pass::kForward});
}

}  // namespace

std::vector<program::Input> HostInputs(const Lowering& lowering) {
  const int64_t n = lowering.options.global_batch;
  const program::Shape images = lowering.graph.OutputShape(LayerId{0}, n);
  const bool bytes = lowering.options.pixels.has_value();
  return {{.name = program::kHostInputNames[program::HostInput::kImages],
           .host_dtype = bytes ? program::DType::kU8 : program::DType::kF32,
           .shape = bytes ? program::ChannelsLast(images) : images},
          {.name = program::kHostInputNames[program::HostInput::kLabels], .host_dtype = program::DType::kI32, .shape = {n}},
          {.name = program::kHostInputNames[program::HostInput::kScalars],
           .host_dtype = program::DType::kF64,
           .shape = {program::StepScalar::kCount}}};
}

void AddScalars(Emission& e, int position) {
  const BufferId scalars = e.builder.program().AddLoaded(e.builder.device_at(position), "scalars", program::DType::kF64,
                                                         {program::StepScalar::kCount});
  e.scalars[position] = scalars;
  AddLoad(e, position, program::HostInput::kScalars, scalars, program::Region::Whole(e.builder.shape(scalars)),
          {e.layer_names.Unlike("scalars"), Pass::kInput});
}

// What the host gives is copied as it is, while the step before computes; images then become what the network reads.
void Emit(Emission& e, const Action& action, const LoadInput&) {
  const Value& value = e.lowering.value(action.outputs[0]);
  const int input = std::get<HostInputPart>(value.role).input;
  for (int p : e.builder.positions()) {
    const std::vector<Samples> held = SamplesOn(e.builder.mesh(), value.placement, value.shape[0], p);
    int64_t row = 0;
    for (const Samples& samples : held) {
      if (input == program::HostInput::kImages) {
        LoadImages(e, action, p, samples, row);
      } else {
        LoadLabels(e, action, p, samples, held.size() == 1 ? std::nullopt : std::optional(row));
      }
      row += samples.count;
    }
  }
}

}  // namespace colonnade::partition
