// The members of a tar archive: POSIX ustar, with GNU's and pax's long names and large sizes.
//
// Refused with a message: other kinds of members that hold data (sparse files, continued volumes), names or sizes for all
// members (pax's global headers), damaged headers, an archive without its end. Links, folders and devices are passed over,
// as they hold no bytes.
#ifndef COLONNADE_DATA_TAR_H_
#define COLONNADE_DATA_TAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"

namespace colonnade::data {

// A regular file in an archive.
struct TarMember {
  std::string name;
  int64_t offset = 0, size = 0;  // of its bytes
};

struct TarIndex {
  std::vector<TarMember> members;  // in the archive's order
  int64_t passed_over = 0;         // links and devices
};

// Reads the headers alone. InvalidArgument with offset, expected and found where the archive is damaged, cut or not a tar.
absl::StatusOr<TarIndex> ScanTar(const ByteSource& file);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_TAR_H_
