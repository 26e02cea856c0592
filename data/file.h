// The calls to the system that readers of data sets need: files read at any place, and folders told from each other.
//
// Errors: NotFound where something is missing, InvalidArgument where it is no file, DataLoss where it cannot be read; each
// names the path.
#ifndef COLONNADE_DATA_FILE_H_
#define COLONNADE_DATA_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"

namespace colonnade::data {

// A regular file that is open. What was opened stays readable when its name goes.
class OpenFile final : public ByteSource {
 public:
  static absl::StatusOr<OpenFile> Open(const std::string& path);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile() override;

  const std::string& path() const { return path_; }
  int64_t size() const override { return size_; }  // when it was opened
  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const override;

 private:
  OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// Reads all of a file into `room`. NotFound where it is missing, DataLoss where it cannot be read, InvalidArgument where it
// is no file or has more than `limit_bytes`.
absl::Status ReadInto(const std::string& path, int64_t limit_bytes, std::string& room);

// Which folder it is, behind all links, and when it last changed.
struct FolderState {
  uint64_t device = 0, inode = 0;
  int64_t modified_ns = 0;  // when an entry was last added or removed, or what somebody has set (mtime)
  int64_t changed_ns = 0;   // when anything of it last changed, that time among it (ctime)
};
absl::StatusOr<FolderState> StateOf(const std::string& folder);
int64_t NowNs();  // by the clock of FolderState

// Returns whether a path names something, be it a link to nothing.
bool HasName(const std::string& path);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_FILE_H_
