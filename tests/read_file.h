// Reads a file that a test has written, or that lies in the repository.
#ifndef COLONNADE_TESTS_READ_FILE_H_
#define COLONNADE_TESTS_READ_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/file.h"

namespace colonnade::engine {

inline absl::StatusOr<std::string> ReadFile(const std::string& path) { return ReadFile(path, int64_t{1} << 30); }

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_READ_FILE_H_
