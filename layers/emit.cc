#include "layers/emit.h"

namespace colonnade::layers {

program::BufferUse Read(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kRead}; }

program::BufferUse Write(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kWrite}; }

program::Work MoveWork(const std::vector<Operand>& read, const std::vector<Operand>& written, int64_t flops) {
  program::Work work{.flops = flops};
  for (const Operand& x : read) work.bytes_read += 4 * program::ElementCount(x.shape);
  for (const Operand& x : written) work.bytes_written += 4 * program::ElementCount(x.shape);
  return work;
}

}  // namespace colonnade::layers
