#include "base/full_io.h"

#include <cerrno>

namespace colonnade::base {

bool WriteFull(int file, absl::string_view bytes, WriteCall write) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    if (written == 0) {  // no file that takes bytes does this
      errno = EIO;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

int64_t ReadFull(int file, int64_t offset, absl::Span<char> to, ReadCall read) {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = read(file, to.data() + done, to.size() - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<int64_t>(done);
}

}  // namespace colonnade::base
