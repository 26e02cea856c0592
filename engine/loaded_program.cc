// Reads and writes of buffers as doubles.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backend.h"
#include "program/bfloat16.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using program::DType;

// Calls f(pointer to the elements).
template <class Bytes, class F>
void AsElements(DType dtype, Bytes* bytes, F f) {
  const auto call = [&]<class T>(T) { f(reinterpret_cast<std::conditional_t<std::is_const_v<Bytes>, const T, T>*>(bytes)); };
  switch (dtype) {
    case DType::kF32:
      return call(float{});
    case DType::kF64:
      return call(double{});
    case DType::kI32:
      return call(int32_t{});
    case DType::kU8:
      return call(uint8_t{});
    case DType::kBF16:
      return call(program::BFloat16{});
  }
}

std::vector<char> FromDoubles(DType dtype, absl::Span<const double> values) {
  std::vector<char> bytes(values.size() * program::SizeInBytes(dtype));
  AsElements(dtype, bytes.data(), [&]<class T>(T* elements) {
    std::transform(values.begin(), values.end(), elements, [](double value) { return static_cast<T>(value); });
  });
  return bytes;
}

}  // namespace

absl::Status LoadedProgram::Read(program::BufferId buffer, absl::Span<double> values) const {
  const DType dtype = program_.buffer(buffer).dtype;
  std::vector<char> bytes = FromDoubles(dtype, values);
  RETURN_IF_ERROR(ReadBytes(buffer, absl::MakeSpan(bytes)));
  AsElements(dtype, std::as_const(bytes).data(),
             [&](const auto* elements) { std::copy_n(elements, values.size(), values.begin()); });
  return absl::OkStatus();
}

absl::Status LoadedProgram::Write(program::BufferId buffer, absl::Span<const double> values) {
  return WriteBytes(buffer, FromDoubles(program_.buffer(buffer).dtype, values));
}

}  // namespace colonnade::engine
