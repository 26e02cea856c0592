#include "engine/io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status_macros.h"
#include "engine/io/file.h"

namespace colonnade::engine {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(int file, OpenToRead(path));
  MappedFile mapped;
  absl::Status status;
  struct stat info;
  if (::fstat(file, &info) != 0) {
    status = SystemError("read", path);
  } else if (info.st_size > 0) {
    const auto size = static_cast<size_t>(info.st_size);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      status = SystemError("map", path);
    } else {
      mapped.bytes_ = {static_cast<const char*>(data), size};
      mapped.mapping_ = std::shared_ptr<void>(data, [size](void* begin) { ::munmap(begin, size); });
    }
  }
  ::close(file);
  if (!status.ok()) return status;
  return mapped;
}

}  // namespace colonnade::engine
