#include "layers/emit.h"

#include <utility>

namespace colonnade::layers {
namespace {

program::BufferUse Use(const Operand& x, program::Access access) {
  program::Region box = program::Region::Whole(x.shape);
  if (x.first_row > 0) box.offset[0] = x.first_row;
  return {x.buffer, std::move(box), access};
}

}  // namespace

program::BufferUse Read(const Operand& x) { return Use(x, program::Access::kRead); }
program::BufferUse Write(const Operand& x) { return Use(x, program::Access::kWrite); }
program::BufferUse Accumulate(const Operand& x) { return Use(x, program::Access::kAccumulate); }

}  // namespace colonnade::layers
