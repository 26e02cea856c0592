// Images in MXNet's record files (.rec), as its im2rec writes them.
//
// A record (record_io.h) holds a header of 24 bytes {u32 number of extra labels, f32 label, u64 id, u64 id}, the extra
// labels (f32 each; where there are any, the first is the label), and an image file. FILE.idx beside FILE.rec, if it is
// there, says which records count: lines of a number, a tab and an offset, in any order. Samples have the order of the file.
//
//   FILE_train.rec or train.rec: training images; test images are FILE_val.rec, FILE_test.rec, val.rec or test.rec beside it
//   any other FILE.rec: training images alone; val.rec and the like, named themselves: test images alone
//   a folder with such files: of one of training images, or of several the one called so; of test images that for
//   validation
#ifndef COLONNADE_DATA_IMAGE_RECORDS_H_
#define COLONNADE_DATA_IMAGE_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/byte_source.h"
#include "data/dataset.h"
#include "data/record_io.h"
#include "data/sample_set.h"

namespace colonnade::data {

// The header of an image record.
struct ImageRecord {
  int32_t label = 0;
  int64_t labels = 1;    // how many it has
  int64_t image_at = 0;  // in the payload
};
// Reads the header of a record. `start` is the payload or its beginning, of at least 28 bytes where it has as many;
// `classes` as of CheckLabel.
absl::StatusOr<ImageRecord> ParseImageRecord(absl::string_view start, int64_t payload_bytes, int64_t classes);

// Returns the offsets in an .idx file, ascending. InvalidArgument naming the line that is no line of such a file, gives a
// number or an offset that another has given, or an offset that is not in a file of `file_bytes`.
absl::StatusOr<std::vector<int64_t>> ParseRecordIndex(absl::string_view text, int64_t file_bytes);

struct IndexedRecords {
  std::vector<RecordPlace> places;
  std::vector<int32_t> labels;
  std::vector<std::string> notes;
  int64_t damaged = 0;  // about how many records are left out
  std::string damage;   // what is wrong with one of them
};
// Returns what samples a file has: all records, or those at `offsets`. Errors name the record and its offset; with
// `skip_damaged` such records are left out and counted in a note.
absl::StatusOr<IndexedRecords> IndexImageRecords(const ByteSource& file, const std::optional<std::vector<int64_t>>& offsets,
                                                 int64_t classes, bool skip_damaged);

bool IsRecordFile(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleSet>> OpenImageRecords(const std::string& path, SplitOf split,
                                                            const DatasetOptions& options);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IMAGE_RECORDS_H_
