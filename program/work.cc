#include "program/work.h"

#include <algorithm>
#include <variant>

#include "program/memory.h"

namespace colonnade::program {

int64_t BytesOf(const Program& program, const BufferUse& use) {
  const Buffer& buffer = program.buffer(use.buffer);
  const int64_t elements = use.region.elements();
  if (const auto* bucket = std::get_if<Bucket>(&buffer.storage)) {
    return DenseSizeOf(program, buffer) / std::max<int64_t>(bucket->held_parts, 1) * elements;
  }
  return elements * SizeInBytes(buffer.dtype);
}

Work WorkOf(const Op& op, absl::Span<const BufferUse> uses, int64_t flops, absl::FunctionRef<int64_t(size_t use)> bytes_of) {
  Work work{.flops = flops};
  for (size_t k = 0; k < uses.size(); ++k) {
    if (Reads(uses[k].access)) work.bytes_read += bytes_of(k);
    if (Writes(uses[k].access)) work.bytes_written += bytes_of(k);
  }
  if (std::holds_alternative<Load>(op)) work.bytes_read = work.bytes_written;
  if (std::holds_alternative<Store>(op)) work.bytes_written = work.bytes_read;
  return work;
}

}  // namespace colonnade::program
