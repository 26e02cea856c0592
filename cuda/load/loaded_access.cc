// Logical reads and writes of buffers, through whatever layout they have.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/load/loaded.h"
#include "cuda/status.h"
#include "program/bfloat16.h"
#include "program/status_macros.h"

namespace colonnade::cuda {

using program::BufferId;
using program::DType;

namespace {

template <class T>
double Get(const char* data) {
  T typed;
  std::memcpy(&typed, data, sizeof(typed));
  return static_cast<double>(typed);
}

double ToDouble(DType dtype, const char* data) {
  switch (dtype) {
    case DType::kF32:
      return Get<float>(data);
    case DType::kF64:
      return Get<double>(data);
    case DType::kI32:
      return Get<int32_t>(data);
    case DType::kU8:
      return Get<uint8_t>(data);
    case DType::kBF16:
      return Get<program::BFloat16>(data);
  }
  return 0;
}

template <class T>
void Put(double value, char* data) {
  const T typed = static_cast<T>(value);
  std::memcpy(data, &typed, sizeof(typed));
}

void FromDouble(double value, DType dtype, char* data) {
  switch (dtype) {
    case DType::kF32:
      return Put<float>(value, data);
    case DType::kF64:
      return Put<double>(value, data);
    case DType::kI32:
      return Put<int32_t>(value, data);
    case DType::kU8:
      return Put<uint8_t>(value, data);
    case DType::kBF16:
      return Put<program::BFloat16>(value, data);
  }
}

}  // namespace

// Elements lie from `first` bytes on, relative to the root's base, in `bytes` bytes, of which [held_begin, held_end) are
// here.
struct CudaProgram::Image {
  View view;  // offset from the start of the image
  int device = 0;
  char* data = nullptr;  // of the first held byte
  int64_t bytes = 0, held_begin = 0, held_end = 0;

  // Calls f(element number in row-major order, byte offset in the image).
  template <class F>
  void ForEachElement(F f) const {
    const int64_t count = program::ElementCount(view.shape), size = program::SizeInBytes(view.dtype);
    program::Shape index(view.shape.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      f(i, OffsetOf(view, index) * size);
      for (int d = static_cast<int>(index.size()) - 1; d >= 0; --d) {
        if (++index[d] < view.shape[d]) break;
        index[d] = 0;
      }
    }
  }
};

absl::StatusOr<CudaProgram::Image> CudaProgram::ImageOf(BufferId buffer, size_t values) const {
  const program::Buffer& what = program_.buffer(buffer);
  if (std::holds_alternative<program::Bucket>(what.storage)) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", what.name, " is a bucket; its members have logical content"));
  }
  if (static_cast<int64_t>(values) != program::ElementCount(what.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", what.name, " has ", program::ElementCount(what.shape), " elements, not ", values));
  }
  const int64_t size = program::SizeInBytes(what.dtype);
  Image image{.view = layouts_.views[buffer.value], .device = what.device};
  program::Shape last = what.shape;
  for (int64_t& index : last) index = std::max<int64_t>(index - 1, 0);
  const int64_t first_byte = image.view.offset * size;
  image.bytes = values == 0 ? 0 : (OffsetOf(image.view, last) - image.view.offset + 1) * size;
  image.view.offset = 0;
  image.held_end = image.bytes;
  const BufferId root = program::RootOf(program_, buffer);
  const int64_t held = layouts_.root_bytes[root.value];
  image.held_begin = std::clamp<int64_t>(-first_byte, 0, image.bytes);
  image.held_end = std::clamp<int64_t>(held - first_byte, image.held_begin, image.bytes);
  image.data = BaseOf(root) + first_byte + image.held_begin;
  return image;
}

// On the compute stream, after all that was enqueued there; blocks.
absl::Status CudaProgram::CopyNow(int device, const CopyBytes& copy) const {
  const Stream& stream = resources_.devices[device].stream(program::Lane::kCompute);
  absl::Status status = resources_.calls->Enqueue(stream, copy);
  if (status.ok()) status = resources_.calls->Record(now_[device], stream);
  if (status.ok()) status = resources_.calls->Synchronize(now_[device]);
  return status;
}

absl::Status CudaProgram::Read(BufferId buffer, absl::Span<double> values) const {
  ASSIGN_OR_RETURN(Image image, ImageOf(buffer, values.size()));
  std::vector<char> bytes(image.bytes);
  const int64_t held = image.held_end - image.held_begin;
  if (held > 0) {
    const CopyBytes copy{bytes.data() + image.held_begin, image.data, held, -1, resources_.devices[image.device].gpu};
    absl::Status status = CopyNow(image.device, copy);
    if (!status.ok()) return WithContext(status, absl::StrCat("reading ", program_.buffer(buffer).name));
  }
  image.ForEachElement([&](int64_t i, int64_t at) {
    if (at >= image.held_begin && at < image.held_end) values[i] = ToDouble(image.view.dtype, bytes.data() + at);
  });
  return absl::OkStatus();
}

// What lies between the elements is read first and written back.
absl::Status CudaProgram::Write(BufferId buffer, absl::Span<const double> values) {
  ASSIGN_OR_RETURN(Image image, ImageOf(buffer, values.size()));
  std::vector<char> bytes(image.bytes);
  const int64_t held = image.held_end - image.held_begin;
  if (held == 0) return absl::OkStatus();
  const int gpu = resources_.devices[image.device].gpu;
  absl::Status status = CopyNow(image.device, {bytes.data() + image.held_begin, image.data, held, -1, gpu});
  image.ForEachElement([&](int64_t i, int64_t at) { FromDouble(values[i], image.view.dtype, bytes.data() + at); });
  if (status.ok()) status = CopyNow(image.device, {image.data, bytes.data() + image.held_begin, held, gpu, -1});
  return WithContext(status, absl::StrCat("writing ", program_.buffer(buffer).name));
}

}  // namespace colonnade::cuda
