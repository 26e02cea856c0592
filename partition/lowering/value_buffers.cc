#include "partition/lowering/value_buffers.h"

namespace colonnade::partition {

using layers::Operand;
using program::BufferId;

void CutToPart(const Lowering& lowering, std::optional<int> part, program::Region& rows) {
  if (!part.has_value()) return;
  rows.size[0] /= lowering.batch_parts;
  rows.offset[0] += *part * rows.size[0];
}

ValueBuffers::ValueBuffers(const Lowering& lowering, MeshBuilder& builder)
    : lowering_(lowering), builder_(builder), buffers_(lowering.values.size(), builder.NoBuffers()) {}

Operand ValueBuffers::OperandAt(ValueId id, int position) const {
  const Value& value = lowering_.value(id);
  const BufferId buffer = At(id, position);
  return {buffer, builder_.shape(buffer), value.shape,
          RegionOn(builder_.mesh(), value.placement, value.shape, position).offset};
}

Operand ValueBuffers::RowsAt(ValueId id, int position, std::optional<int> part) const {
  Operand rows = OperandAt(id, position);
  if (!part.has_value()) return rows;
  program::Region box = program::Region::Whole(rows.shape);
  CutToPart(lowering_, part, box);
  rows.shape = box.size;
  rows.first_row = box.offset[0];
  rows.offset[0] = SampleAt(lowering_.value(id), position, rows.first_row);
  return rows;
}

int64_t ValueBuffers::SampleAt(const Value& value, int position, int64_t row) const {
  for (const Samples& held : SamplesOn(builder_.mesh(), value.placement, value.shape[0], position)) {
    if (row < held.count) return held.first + row;
    row -= held.count;
  }
  return value.shape[0];
}

void ValueBuffers::Make(ValueId id, int position) {
  const Value& value = lowering_.value(id);
  BufferId& buffer = buffers_[id.value][position];
  if (buffer.valid()) return;
  if (value.in_place_of.valid()) {
    buffer = At(value.in_place_of, position);
  } else {
    buffer =
        builder_.AddBuffer(position, value.name, *value.dtype, LocalShape(builder_.mesh(), value.placement, value.shape));
  }
}

void ValueBuffers::MakeOutputs(const Action& action) {
  for (ValueId output : action.outputs) {
    if (!output.valid()) continue;
    for (int p : builder_.positions()) Make(output, p);
  }
}

void ValueBuffers::ShareOutputs(const Action& action) {
  for (ValueId output : action.outputs) {
    if (output.valid()) buffers_[output.value] = buffers_[action.inputs[0].value.value];
  }
}

}  // namespace colonnade::partition
