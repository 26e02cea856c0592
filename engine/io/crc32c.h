// CRC-32C (Castagnoli), the checksum of TFRecord and TensorBoard files.
#ifndef COLONNADE_ENGINE_CRC32C_H_
#define COLONNADE_ENGINE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace colonnade::engine {

uint32_t Crc32c(absl::string_view bytes);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CRC32C_H_
