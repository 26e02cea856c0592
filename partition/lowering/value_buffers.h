// The buffers of values at each position. One is made when its value is first made, unless the value has memory already.
//
// Internal to partition/.
#ifndef COLONNADE_PARTITION_LOWERING_VALUE_BUFFERS_H_
#define COLONNADE_PARTITION_LOWERING_VALUE_BUFFERS_H_

#include <optional>
#include <vector>

#include "layers/emit.h"
#include "partition/lowering/lowering.h"
#include "partition/lowering/mesh_builder.h"

namespace colonnade::partition {

// Cuts a box of rows to those of one part of the batch; without one it stays whole.
void CutToPart(const Lowering& lowering, std::optional<int> part, program::Region& rows);

class ValueBuffers {
 public:
  ValueBuffers(const Lowering& lowering, MeshBuilder& builder);

  program::BufferId At(ValueId value, int position) const { return buffers_[value.value][position]; }
  layers::Operand OperandAt(ValueId value, int position) const;
  // Returns the rows of a part of the batch; without one, all.
  layers::Operand RowsAt(ValueId value, int position, std::optional<int> part) const;

  // Gives a value memory that is there.
  void Place(ValueId value, ByPosition buffers) { buffers_[value.value] = std::move(buffers); }
  void Place(ValueId value, int position, program::BufferId buffer) { buffers_[value.value][position] = buffer; }
  // Makes a buffer for a value that has none.
  void Make(ValueId value, int position);
  void MakeOutputs(const Action& action);
  // Gives what the action makes the buffers of what it reads.
  void ShareOutputs(const Action& action);

 private:
  // Returns which sample of the batch stands in a row of what a position holds.
  int64_t SampleAt(const Value& value, int position, int64_t row) const;

  const Lowering& lowering_;
  MeshBuilder& builder_;
  std::vector<ByPosition> buffers_;  // by value
};

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_VALUE_BUFFERS_H_
