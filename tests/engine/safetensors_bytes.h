// Safetensors files, byte by byte.
#ifndef COLONNADE_TESTS_ENGINE_SAFETENSORS_BYTES_H_
#define COLONNADE_TESTS_ENGINE_SAFETENSORS_BYTES_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"

namespace colonnade::engine {

inline constexpr char kGood[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

// A header, with `length` as its own where one is given, and zeros.
inline std::string File(const std::string& header, size_t data_bytes, std::optional<uint64_t> length = std::nullopt) {
  const uint64_t stated = length.value_or(header.size());
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &stated, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

// Returns the tensors of a file's bytes as numbers.
inline absl::StatusOr<std::vector<NamedTensor>> ParseTensors(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::vector<TensorView> views, ViewTensors(bytes));
  std::vector<NamedTensor> tensors;
  tensors.reserve(views.size());
  for (const TensorView& view : views) tensors.push_back(AsDoubles(view));
  return tensors;
}

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_SAFETENSORS_BYTES_H_
