#include "engine/io/crc32c.h"

#include <array>

namespace colonnade::engine {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

// Neither Debian 12 nor 13 has a library for C++ that computes it, and Abseil does from Debian 13 on.
uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace colonnade::engine
