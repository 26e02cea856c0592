// Reads and writes of buffers as doubles.
#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "engine/backend.h"
#include "program/visit_dtype.h"

namespace colonnade::engine {
namespace {

using program::DType;

std::vector<char> FromDoubles(DType dtype, absl::Span<const double> values) {
  std::vector<char> bytes(values.size() * program::SizeInBytes(dtype));
  program::VisitDType(dtype, [&]<class T>(T) {
    std::transform(values.begin(), values.end(), reinterpret_cast<T*>(bytes.data()),
                   [](double value) { return static_cast<T>(value); });
  });
  return bytes;
}

}  // namespace

absl::Status LoadedProgram::Read(program::BufferId buffer, absl::Span<double> values) const {
  const DType dtype = program_.buffer(buffer).dtype;
  std::vector<char> bytes = FromDoubles(dtype, values);
  RETURN_IF_ERROR(ReadBytes(buffer, absl::MakeSpan(bytes)));
  program::VisitDType(
      dtype, [&]<class T>(T) { std::copy_n(reinterpret_cast<const T*>(bytes.data()), values.size(), values.begin()); });
  return absl::OkStatus();
}

absl::Status LoadedProgram::Write(program::BufferId buffer, absl::Span<const double> values) {
  return WriteBytes(buffer, FromDoubles(program_.buffer(buffer).dtype, values));
}

}  // namespace colonnade::engine
