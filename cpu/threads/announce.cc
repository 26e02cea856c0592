#include "cpu/threads/announce.h"

#include "cpu/load/box.h"

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_read_range(void* address, unsigned long bytes);   // NOLINT: the sanitizer's own names and types
void __tsan_write_range(void* address, unsigned long bytes);  // NOLINT
}
#endif

namespace colonnade::cpu {

Announcer::Announcer(absl::Span<const Operand> operands, absl::Span<char* const> data) {
  if (!kThreadSanitizer) return;
  for (size_t use = 0; use < operands.size(); ++use) {
    const View& view = operands[use].view;
    const View box = view.kind == View::Kind::kOpaque ? Flat(view) : view;
    const int64_t size = program::SizeInBytes(view.dtype);
    const bool write = program::Writes(operands[use].access);
    const BoxPlan plan({box});
    plan.ForRows(0, plan.rows(), [&](const Row& row) {
      char* begin = data[use] + row.offset[0] * size;
      if (row.contiguous) {
        ranges_.push_back({begin, row.size * size, write});
      } else {
        for (int64_t i = 0; i < row.size; ++i) ranges_.push_back({begin + i * row.stride[0] * size, size, write});
      }
    });
  }
}

void Announcer::Announce() const {
#if defined(__SANITIZE_THREAD__)
  for (const Range& range : ranges_) {
    if (range.write) {
      __tsan_write_range(range.begin, range.bytes);
    } else {
      __tsan_read_range(range.begin, range.bytes);
    }
  }
#endif
}

}  // namespace colonnade::cpu
