// Records as RecordIO writes them.
#ifndef COLONNADE_TESTS_DATA_RECORD_WRITER_H_
#define COLONNADE_TESTS_DATA_RECORD_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "data/record_io.h"

namespace colonnade::data {

// One part of a record: the magic, kind and length, the bytes, and zeros up to a multiple of four.
inline std::string RecordPartOf(uint32_t kind, absl::string_view bytes) {
  std::string part;
  for (uint32_t word : {kRecordMagic, kind << 29 | static_cast<uint32_t>(bytes.size())}) {
    for (int shift : {0, 8, 16, 24}) part.push_back(static_cast<char>(word >> shift & 0xff));
  }
  part.append(bytes.data(), bytes.size());
  part.resize((part.size() + 3) / 4 * 4, '\0');
  return part;
}

// One record of a payload, which is cut into parts wherever it holds the magic at a multiple of four bytes.
inline std::string RecordOf(absl::string_view payload) {
  enum : uint32_t { kWhole, kFirst, kMiddle, kLast };
  std::string record;
  size_t begin = 0;
  for (size_t at = 0; at + 4 <= payload.size(); at += 4) {
    if (LittleEndian32(payload.data() + at) != kRecordMagic) continue;
    record += RecordPartOf(record.empty() ? kFirst : kMiddle, payload.substr(begin, at - begin));
    begin = at + 4;
  }
  return record + RecordPartOf(record.empty() ? kWhole : kLast, payload.substr(begin));
}

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_RECORD_WRITER_H_
