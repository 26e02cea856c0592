#include "layers/emit.h"

namespace colonnade::layers {

program::BufferUse Read(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kRead}; }

program::BufferUse Write(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kWrite}; }

program::BufferUse Accumulate(const Operand& x) {
  return {x.buffer, program::Region::Whole(x.shape), program::Access::kAccumulate};
}

}  // namespace colonnade::layers
