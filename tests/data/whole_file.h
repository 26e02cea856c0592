// All of a file that a test has made or knows, however large.
#ifndef COLONNADE_TESTS_DATA_WHOLE_FILE_H_
#define COLONNADE_TESTS_DATA_WHOLE_FILE_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "data/file.h"

namespace colonnade::data {

inline absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::string bytes;
  RETURN_IF_ERROR(ReadInto(path, std::numeric_limits<int64_t>::max(), bytes));
  return bytes;
}

}  // namespace colonnade::data

#endif  // COLONNADE_TESTS_DATA_WHOLE_FILE_H_
