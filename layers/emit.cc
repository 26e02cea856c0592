#include "layers/emit.h"

namespace colonnade::layers {
namespace {

constexpr int64_t kCountedBytes = sizeof(float);

}  // namespace

program::BufferUse Read(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kRead}; }

program::BufferUse Write(const Operand& x) { return {x.buffer, program::Region::Whole(x.shape), program::Access::kWrite}; }

program::BufferUse Accumulate(const Operand& x) {
  return {x.buffer, program::Region::Whole(x.shape), program::Access::kAccumulate};
}

program::Work MoveWork(const std::vector<Operand>& read, const std::vector<Operand>& written, int64_t flops) {
  program::Work work{.flops = flops};
  for (const Operand& x : read) work.bytes_read += kCountedBytes * program::ElementCount(x.shape);
  for (const Operand& x : written) work.bytes_written += kCountedBytes * program::ElementCount(x.shape);
  return work;
}

program::Work InType(program::Work f32_work, program::DType dtype) {
  f32_work.bytes_read = f32_work.bytes_read * program::SizeInBytes(dtype) / kCountedBytes;
  f32_work.bytes_written = f32_work.bytes_written * program::SizeInBytes(dtype) / kCountedBytes;
  return f32_work;
}

}  // namespace colonnade::layers
