// Tar archives of a test's own.
#ifndef COLONNADE_TESTS_DATA_TAR_WRITER_H_
#define COLONNADE_TESTS_DATA_TAR_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace colonnade::data {

// Puts the sum of a header's bytes into it, those of the sum taken for blanks.
inline void PutChecksum(std::string& archive, size_t header) {
  archive.replace(header + 148, 8, 8, ' ');
  uint32_t sum = 0;
  for (size_t i = header; i < header + 512; ++i) sum += static_cast<unsigned char>(archive[i]);
  archive.replace(header + 148, 7, absl::StrFormat("%06o", sum) + std::string(1, '\0'));
}

// One ustar member: its header and its bytes, up to the next multiple of 512.
inline std::string TarMemberOf(const std::string& name, const std::string& bytes, char kind = '0') {
  std::string member(512, '\0');
  member.replace(0, name.size(), name);
  member.replace(100, 7, "0000644");
  member.replace(124, 11, absl::StrFormat("%011o", bytes.size()));
  member[156] = kind;
  member.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  PutChecksum(member, 0);
  member += bytes;
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

inline const std::string kTarEnd(1024, '\0');

inline std::string TarOf(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, bytes] : files) archive += TarMemberOf(name, bytes);
  return archive + kTarEnd;
}

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_TAR_WRITER_H_
