// Logical reads and writes of buffers, through whatever layout they have.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cuda/load/loaded.h"
#include "cuda/status.h"

namespace colonnade::cuda {

using program::BufferId;

// The `bytes` bytes from the first element to the last, of which the device holds some.
struct CudaProgram::MemoryRange {
  View view;  // offset from the start of the range
  int device = 0;
  char* data = nullptr;  // of the first held byte
  int64_t bytes = 0;
  engine::HeldBytes held;

  bool IsRowMajor() const { return !view.folded.has_value() && view.strides == RowMajor(view.dtype, view.shape).strides; }

  // Calls f(element number in row-major order, byte offset in the range).
  template <class F>
  void ForEachElement(F f) const {
    const int64_t size = program::SizeInBytes(view.dtype), count = program::ElementCount(view.shape);
    const int last = static_cast<int>(view.shape.size()) - 1;
    const int64_t row = last < 0 ? 1 : view.shape[last];
    program::Shape index(view.shape.size(), 0);  // of a row's first element
    for (int64_t first = 0; first < count; first += row) {
      if (view.folded.has_value()) {
        for (int64_t i = 0; i < row; ++i) index[last] = i, f(first + i, OffsetOf(view, index) * size);
        index[last] = 0;
      } else {
        const int64_t begin = OffsetOf(view, index) * size, step = last < 0 ? 0 : view.strides[last] * size;
        for (int64_t i = 0; i < row; ++i) f(first + i, begin + i * step);
      }
      for (int d = last - 1; d >= 0; --d) {
        if (++index[d] < view.shape[d]) break;
        index[d] = 0;
      }
    }
  }
};

absl::StatusOr<CudaProgram::MemoryRange> CudaProgram::RangeOf(BufferId buffer, size_t bytes) const {
  RETURN_IF_ERROR(engine::CheckLogicalAccess(program_, buffer, bytes));
  const program::Buffer& what = program_.buffer(buffer);
  const int64_t size = program::SizeInBytes(what.dtype);
  MemoryRange range{.view = layouts_.views[buffer.value], .device = what.device};
  program::Shape last = what.shape;
  for (int64_t& index : last) index = std::max<int64_t>(index - 1, 0);
  const int64_t first_byte = range.view.offset * size;
  range.bytes = bytes == 0 ? 0 : (OffsetOf(range.view, last) - range.view.offset + 1) * size;
  range.view.offset = 0;
  const BufferId root = program::RootOf(program_, buffer);
  range.held = engine::HeldBytesOf(first_byte, range.bytes, layouts_.root_bytes[root.value]);
  range.data = memory_.BaseOf(root) + first_byte + range.held.begin;
  return range;
}

// Copies on `stream` of the device, after all that was enqueued there; blocks.
absl::Status CudaProgram::CopyNow(int device, const Stream& stream, const CopyBytes& copy) const {
  absl::Status status = resources_.calls->Enqueue(stream, copy);
  if (status.ok()) status = resources_.calls->Record(events_.now[device], stream);
  if (status.ok()) status = resources_.calls->Synchronize(events_.now[device]);
  return status;
}

// Not on a lane of the device, which may be at work: on the stream of lane load, whose copies were made before that began.
absl::Status CudaProgram::ReadBytes(BufferId buffer, absl::Span<char> bytes) const {
  ASSIGN_OR_RETURN(MemoryRange range, RangeOf(buffer, bytes.size()));
  const int64_t held = range.held.size(), size = program::SizeInBytes(range.view.dtype);
  const bool row_major = range.IsRowMajor();
  std::vector<char> copy(row_major ? 0 : range.bytes);
  char* to = row_major ? bytes.data() : copy.data();
  if (held > 0) {
    const Device& device = resources_.devices[range.device];
    absl::Status status = CopyNow(range.device, device.stream(program::Lane::kLoad),
                                  {to + range.held.begin, range.data, held, -1, device.gpu});
    if (!status.ok()) return WithContext(status, absl::StrCat("reading ", program_.buffer(buffer).name));
  }
  if (row_major) return absl::OkStatus();
  range.ForEachElement([&](int64_t i, int64_t at) {
    const bool is_held = at >= range.held.begin && at < range.held.end;
    if (is_held) std::memcpy(bytes.data() + i * size, copy.data() + at, size);
  });
  return absl::OkStatus();
}

// What a folded image holds besides its elements is zero, as `copy` is at first.
absl::Status CudaProgram::WriteBytes(BufferId buffer, absl::Span<const char> bytes) {
  ASSIGN_OR_RETURN(MemoryRange range, RangeOf(buffer, bytes.size()));
  const int64_t held = range.held.size(), size = program::SizeInBytes(range.view.dtype);
  if (held == 0) return absl::OkStatus();
  const Device& device = resources_.devices[range.device];
  const Stream& stream = device.stream(program::Lane::kCompute);
  const bool row_major = range.IsRowMajor();
  std::vector<char> copy(row_major ? 0 : range.bytes);
  if (!row_major) {
    range.ForEachElement([&](int64_t i, int64_t at) { std::memcpy(copy.data() + at, bytes.data() + i * size, size); });
  }
  const char* from = row_major ? bytes.data() : copy.data();
  return WithContext(CopyNow(range.device, stream, {range.data, from + range.held.begin, held, device.gpu, -1}),
                     absl::StrCat("writing ", program_.buffer(buffer).name));
}

}  // namespace colonnade::cuda
