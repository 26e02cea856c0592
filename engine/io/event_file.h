// Event files, which TensorBoard reads: TFRecord frames around Event messages of protobuf.
//
// The fields that are written, with their numbers:
//   Event       wall_time = 1 (double), step = 2 (varint), file_version = 3 (string), summary = 5, session_log = 7
//   Summary     value = 1
//   Value       tag = 1, simple_value = 2 (float)
//   SessionLog  status = 1, in which START is 1
#ifndef COLONNADE_ENGINE_EVENT_FILE_H_
#define COLONNADE_ENGINE_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/append_file.h"

namespace colonnade::engine {

struct Scalar {
  absl::string_view tag;
  double value = 0;  // kept as float
};

// Return the bytes of one message each. Times are seconds since 1970.
std::string VersionEvent(double wall_time);
std::string ScalarsEvent(double wall_time, int64_t step, absl::Span<const Scalar> scalars);
// Readers drop the events before it that have this step or a later one.
std::string RestartEvent(double wall_time, int64_t step);

// Returns the frame of `data`: u64 length, u32 masked CRC-32C of these eight bytes, `data`, u32 masked CRC-32C of `data`;
// all little-endian.
std::string TfRecord(absl::string_view data);

class EventFile {
 public:
  // Makes a new file in `folder`, beside those of other runs, and writes its version.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder);

  absl::Status AddRestart(int64_t step);
  absl::Status AddScalars(int64_t step, absl::Span<const Scalar> scalars);
  const std::string& path() const { return file_->path(); }

 private:
  explicit EventFile(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AppendFile> file_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_EVENT_FILE_H_
