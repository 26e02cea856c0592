#include "data/image_records.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/bad_samples.h"
#include "data/class_names.h"
#include "data/file.h"
#include "data/no_split.h"
#include "data/split_files.h"

namespace colonnade::data {
namespace {

constexpr int64_t kImageHeaderBytes = 24, kLabelBytes = 4;
constexpr int64_t kLargestIndex = int64_t{1} << 32, kLargestOffset = std::numeric_limits<int64_t>::max();

float FloatAt(const char* bytes) {
  const uint32_t bits = LittleEndian32(bytes);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

absl::StatusOr<int32_t> WholeLabel(float value, int64_t classes) {
  if (!(value >= 0 && value < 1e9f) || std::floor(value) != value) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a whole number from 0 as its label, found %g", value));
  }
  RETURN_IF_ERROR(CheckLabel(static_cast<int64_t>(value), classes));
  return static_cast<int32_t>(value);
}

// Reads headers of records, for which most often their first part is enough.
class RecordReader {
 public:
  RecordReader(const ByteSource& file, int64_t classes) : file_(file), classes_(classes) {}

  absl::StatusOr<ImageRecord> HeaderOf(const RecordPlace& place) {
    const int64_t wanted = std::min(kImageHeaderBytes + kLabelBytes, place.payload_bytes);
    const bool is_whole = place.end - place.offset - kPartHeaderBytes - place.payload_bytes < 4;
    absl::string_view start;
    if (is_whole) {
      room_.resize(static_cast<size_t>(wanted));
      RETURN_IF_ERROR(file_.ReadAt(place.offset + kPartHeaderBytes, absl::MakeSpan(room_)));
      start = room_;
    } else {
      ASSIGN_OR_RETURN(start, ReadRecordStart(file_, place, wanted, room_));
    }
    return ParseImageRecord(start, place.payload_bytes, classes_);
  }

 private:
  const ByteSource& file_;
  const int64_t classes_;
  std::string room_;
};

absl::StatusOr<std::vector<RecordPlace>> PlacesAt(const ByteSource& file, const std::vector<int64_t>& offsets) {
  std::vector<RecordPlace> places;
  for (int64_t offset : offsets) {
    absl::StatusOr<RecordPlace> place = RecordAt(file, offset);
    if (!place.ok()) {
      return absl::Status(place.status().code(), absl::StrFormat("record %d %s", places.size(), place.status().message()));
    }
    if (!places.empty() && place->offset < places.back().end) {
      return absl::InvalidArgumentError(
          absl::StrFormat("record %d at offset %d: expected it behind the record before, which ends at %d", places.size(),
                          offset, places.back().end));
    }
    places.push_back(*place);
  }
  return places;
}

void NoteUnlisted(const std::vector<RecordPlace>& places, int64_t file_bytes, std::vector<std::string>& notes) {
  int64_t listed = 0;
  for (const RecordPlace& place : places) listed += place.end - place.offset;
  if (listed == file_bytes) return;
  notes.push_back(absl::StrFormat("the index has %s, in %d of %d bytes: the others are left out",
                                  base::Counted(places.size(), "record"), listed, file_bytes));
}

// Keeps those of a file's undamaged records that the index lists, and notes how many it does not.
int64_t KeepListed(const std::vector<int64_t>& offsets, std::vector<RecordPlace>& places, std::vector<std::string>& notes) {
  const size_t unlisted = std::erase_if(places, [&offsets](const RecordPlace& place) {
    return !std::binary_search(offsets.begin(), offsets.end(), place.offset);
  });
  if (unlisted > 0)
    notes.push_back(absl::StrCat(base::Counted(unlisted, "record", "is", "are"), " left out: not in the index"));
  return static_cast<int64_t>(offsets.size() - places.size());
}

// Of a file without damage an index is right as far as the file goes, or it is that of another file.
absl::Status CheckIndexOfWhole(const ByteSource& file, std::vector<int64_t> offsets) {
  std::erase_if(offsets, [&file](int64_t offset) { return offset >= file.size(); });
  return PlacesAt(file, offsets).status();
}

// Which records count, and what is damaged besides.
struct FoundRecords {
  std::vector<RecordPlace> places;
  int64_t damaged = 0;  // records, about
  std::string damage;
};

// How many records the gaps held, if those were of the mean length.
int64_t LostIn(const RecoveredRecords& recovered, int64_t file_bytes) {
  const int64_t intact = file_bytes - recovered.skipped_bytes, records = static_cast<int64_t>(recovered.records.size());
  const double of_mean_length = intact == 0 ? 0
                                            : static_cast<double>(recovered.skipped_bytes) * static_cast<double>(records) /
                                                  static_cast<double>(intact);
  return std::max(recovered.gaps, static_cast<int64_t>(of_mean_length + 0.5));
}

absl::StatusOr<FoundRecords> FindUndamaged(const ByteSource& file, const std::optional<std::vector<int64_t>>& offsets,
                                           std::vector<std::string>& notes) {
  ASSIGN_OR_RETURN(RecoveredRecords recovered, RecoverRecords(file));
  FoundRecords found{.damaged = LostIn(recovered, file.size())};
  found.places = std::move(recovered.records);
  if (offsets.has_value()) {
    if (recovered.gaps == 0) RETURN_IF_ERROR(CheckIndexOfWhole(file, *offsets));
    found.damaged = KeepListed(*offsets, found.places, notes);
    found.damage = absl::StrFormat("%d of %d records in the index are not there", found.damaged, offsets->size());
  } else {
    found.damage =
        absl::StrFormat("%d bytes in %s are no records", recovered.skipped_bytes, base::Counted(recovered.gaps, "place"));
  }
  return found;
}

absl::StatusOr<FoundRecords> FindAll(const ByteSource& file, const std::optional<std::vector<int64_t>>& offsets,
                                     std::vector<std::string>& notes) {
  FoundRecords found;
  ASSIGN_OR_RETURN(found.places, offsets.has_value() ? PlacesAt(file, *offsets) : ScanRecords(file));
  if (offsets.has_value()) NoteUnlisted(found.places, file.size(), notes);
  return found;
}

// Splits and their files: FILE_train.rec and FILE_val.rec, train.rec and val.rec.
constexpr char kTrainEnding[] = "train.rec";
constexpr const char* kTestEndings[] = {"val.rec", "test.rec"};

bool IsNamed(absl::string_view name, absl::string_view ending) {
  return absl::ConsumeSuffix(&name, ending) && (name.empty() || absl::EndsWith(name, "_"));
}

bool IsRecordName(absl::string_view name) { return absl::EndsWith(name, ".rec"); }

absl::StatusOr<std::string> TestFileOf(const std::string& train) {
  std::string stem = train;
  if (IsNamed(NameIn(train), kTrainEnding)) {
    stem.resize(stem.size() - (sizeof(kTrainEnding) - 1));
    for (const char* ending : kTestEndings) {
      const std::string path = stem + ending;
      if (HasName(path)) return path;
    }
    return NoSplit(absl::StrFormat("%s: expected test images in %sval.rec or %stest.rec, found neither", train, stem, stem));
  }
  return NoSplit(absl::StrFormat(
      "%s: expected a file train.rec or …_train.rec, beside which there are test images, found one of training "
      "images alone",
      train));
}

absl::StatusOr<std::string> OnlyOne(const std::string& folder, const std::vector<std::string>& found) {
  if (found.size() == 1) return found[0];
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected one file train.rec or …_train.rec, found %s; name one of them itself", folder,
                      absl::StrJoin(found, ", ")));
}

absl::Status SeveralTestFiles(const std::string& folder, const std::vector<std::string>& found) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected one file of test images, found %s; keep those of one set "
                      "in a folder",
                      folder, absl::StrJoin(found, ", ")));
}

bool IsTestName(absl::string_view name) { return IsNamed(name, kTestEndings[0]) || IsNamed(name, kTestEndings[1]); }

// Test images without a training file: those of a file of their own name, which no other file's images are.
absl::StatusOr<std::string> TestFileAloneIn(const std::string& folder) {
  for (const char* ending : kTestEndings) {
    const std::vector<std::string> test = FilesIn(folder, [&](absl::string_view name) { return IsNamed(name, ending); });
    if (test.size() == 1) return test[0];
    if (test.size() > 1) return SeveralTestFiles(folder, test);
  }
  return NoSplit(
      absl::StrFormat("%s: expected test images in val.rec, test.rec, …_val.rec or …_test.rec, found none", folder));
}

absl::Status OnlyTestImages(const std::string& path) {
  return NoSplit(
      absl::StrFormat("%s: expected training images in train.rec, …_train.rec or a file of another name than val.rec, "
                      "test.rec, …_val.rec and …_test.rec, found test images alone",
                      path));
}

absl::StatusOr<std::string> TrainingFileIn(const std::string& folder) {
  const std::vector<std::string> others =
      FilesIn(folder, [](absl::string_view name) { return IsRecordName(name) && !IsTestName(name); });
  if (!others.empty()) return OnlyOne(folder, others);
  return OnlyTestImages(folder);
}

// The file of a folder for that split: beside the one file train.rec, or else told by its name.
absl::StatusOr<std::string> RecordFileIn(const std::string& folder, SplitOf split) {
  const std::vector<std::string> train = FilesIn(folder, [](absl::string_view name) { return IsNamed(name, kTrainEnding); });
  if (train.empty()) return split == SplitOf::kTrain ? TrainingFileIn(folder) : TestFileAloneIn(folder);
  ASSIGN_OR_RETURN(std::string path, OnlyOne(folder, train));
  if (split == SplitOf::kTrain) return path;
  return TestFileOf(path);
}

absl::StatusOr<std::string> RecordFileOf(const std::string& path, SplitOf split) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return RecordFileIn(path, split);
  if (IsTestName(NameIn(path)) != (split == SplitOf::kTest)) {
    return split == SplitOf::kTrain ? OnlyTestImages(path) : TestFileOf(path);
  }
  return path;
}

class ImageRecords final : public SampleSet {
 public:
  ImageRecords(std::string name, OpenFile file, IndexedRecords records, std::vector<std::string> class_names)
      : name_(std::move(name)), file_(std::move(file)), records_(std::move(records)), class_names_(std::move(class_names)) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(records_.labels.size()); }
  int32_t label(int64_t sample) const override { return records_.labels[sample]; }
  std::string sample_name(int64_t sample) const override {
    return absl::StrFormat("%s: record %d at offset %d", file_.path(), sample, records_.places[sample].offset);
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return records_.notes; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    const RecordPlace& place = records_.places[sample];
    if (place.payload_bytes > kLargestImageFile) {
      return Named(sample, absl::InvalidArgumentError(absl::StrFormat("expected at most %d bytes, found %d",
                                                                      kLargestImageFile, place.payload_bytes)));
    }
    absl::StatusOr<absl::string_view> payload = ReadRecord(file_, place, room);
    if (!payload.ok()) return Named(sample, payload.status());
    absl::StatusOr<ImageRecord> header = ParseImageRecord(*payload, static_cast<int64_t>(payload->size()), 0);
    if (!header.ok()) return Named(sample, header.status());
    return StoredImage{.is_encoded = true, .bytes = payload->substr(static_cast<size_t>(header->image_at))};
  }

 private:
  absl::Status Named(int64_t sample, const absl::Status& status) const {
    return base::WithContext(status, sample_name(sample));
  }

  std::string name_;
  OpenFile file_;
  IndexedRecords records_;
  std::vector<std::string> class_names_;
};

// Of a file that may be damaged, offsets may lie behind its end: these records are gone.
absl::StatusOr<std::optional<std::vector<int64_t>>> ReadRecordIndex(const OpenFile& records, bool may_be_damaged) {
  const std::string path = std::filesystem::path(records.path()).replace_extension(".idx").string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  std::string text;
  RETURN_IF_ERROR(ReadInto(path, kLargestIndex, text));
  absl::StatusOr<std::vector<int64_t>> offsets = ParseRecordIndex(text, may_be_damaged ? kLargestOffset : records.size());
  if (!offsets.ok()) return base::WithContext(offsets.status(), path);
  return *std::move(offsets);
}

// Records are numbered, as a rule; some programs name them by words.
std::string KeyOfIndex(absl::string_view word) {
  int64_t number = 0;
  return absl::SimpleAtoi(word, &number) ? absl::StrCat(number) : std::string(word);
}

}  // namespace

absl::StatusOr<ImageRecord> ParseImageRecord(absl::string_view start, int64_t payload_bytes, int64_t classes) {
  if (payload_bytes < kImageHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected a header of %d bytes and an image, found %d bytes", kImageHeaderBytes, payload_bytes));
  }
  const int64_t extra = LittleEndian32(start.data());
  ImageRecord record{.labels = std::max<int64_t>(1, extra), .image_at = kImageHeaderBytes + extra * kLabelBytes};
  if (record.image_at > payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("expected %d labels behind the header, found %d bytes", extra, payload_bytes - kImageHeaderBytes));
  }
  ASSIGN_OR_RETURN(record.label, WholeLabel(FloatAt(start.data() + (extra > 0 ? kImageHeaderBytes : 4)), classes));
  return record;
}

absl::StatusOr<std::vector<int64_t>> ParseRecordIndex(absl::string_view text, int64_t file_bytes) {
  std::vector<int64_t> offsets;
  absl::flat_hash_set<std::string> keys;
  absl::flat_hash_set<int64_t> seen;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    auto wrong = [number, line](const std::string& expected) {
      return absl::InvalidArgumentError(
          absl::StrFormat("line %d: expected %s, found \"%s\"", number, expected, line.substr(0, 80)));
    };
    const std::vector<absl::string_view> words = absl::StrSplit(absl::StripAsciiWhitespace(line), '\t');
    int64_t offset = 0;
    if (words.size() != 2 || words[0].empty() || !absl::SimpleAtoi(words[1], &offset)) {
      return wrong("a number, a tab and an offset");
    }
    if (offset < 0 || offset >= file_bytes) return wrong(absl::StrFormat("an offset in a file of %d bytes", file_bytes));
    if (!keys.insert(KeyOfIndex(words[0])).second) return wrong("a number that no line before has");
    if (!seen.insert(offset).second) return wrong("an offset that no line before has");
    offsets.push_back(offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

absl::StatusOr<IndexedRecords> IndexImageRecords(const ByteSource& file, const std::optional<std::vector<int64_t>>& offsets,
                                                 int64_t classes, bool skip_damaged) {
  IndexedRecords out;
  ASSIGN_OR_RETURN(const FoundRecords found,
                   skip_damaged ? FindUndamaged(file, offsets, out.notes) : FindAll(file, offsets, out.notes));
  RecordReader reader(file, classes);
  int64_t refused = 0, several = 0;
  for (const RecordPlace& place : found.places) {
    absl::StatusOr<ImageRecord> record = reader.HeaderOf(place);
    if (!record.ok() && skip_damaged && absl::IsInvalidArgument(record.status())) {
      if (refused++ == 0) {
        out.damage = absl::StrFormat("the record at offset %d: %s", place.offset, record.status().message());
      }
      continue;
    }
    if (!record.ok()) {
      return base::WithContext(record.status(), absl::StrFormat("record %d at offset %d", out.labels.size(), place.offset));
    }
    several += record->labels > 1 ? 1 : 0;
    out.places.push_back(place);
    out.labels.push_back(record->label);
  }
  out.damaged = found.damaged + refused;
  if (out.damaged > 0) {
    if (refused == 0) out.damage = found.damage;
    out.notes.push_back(absl::StrFormat("damaged: %s, and %s no header of an image; %s left", found.damage,
                                        base::Counted(refused, "record", "has", "have"),
                                        base::Counted(out.labels.size(), "record", "is", "are")));
  }
  if (several > 0) {
    out.notes.push_back(
        absl::StrCat(base::Counted(several, "record", "has", "have"), " more than one label: the first counts"));
  }
  return out;
}

bool IsRecordFile(const std::string& path) { return IsRecordName(path) || !FilesIn(path, IsRecordName).empty(); }

absl::StatusOr<std::unique_ptr<SampleSet>> OpenImageRecords(const std::string& path, SplitOf split,
                                                            const DatasetOptions& options) {
  ASSIGN_OR_RETURN(std::string file_path, RecordFileOf(path, split));
  ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(file_path));
  ASSIGN_OR_RETURN(std::optional<std::vector<int64_t>> offsets, ReadRecordIndex(file, options.skip_damaged));
  absl::StatusOr<IndexedRecords> records = IndexImageRecords(file, offsets, options.classes, options.skip_damaged);
  if (!records.ok()) return base::WithContext(records.status(), file_path);
  const auto all = static_cast<int64_t>(records->labels.size()) + records->damaged;
  if (IsTooManyBad(records->damaged, all)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected at most 1 in 100 of %d records that cannot be used, found about %d, such as: %s",
                        file_path, all, records->damaged, records->damage));
  }
  if (records->labels.empty()) return absl::InvalidArgumentError(absl::StrCat(file_path, ": expected records, found none"));
  for (std::string& note : records->notes) note = absl::StrCat(file_path, ": ", note);
  ASSIGN_OR_RETURN(std::vector<std::string> names, NameClasses({}, records->labels, options.classes));
  return std::make_unique<ImageRecords>(absl::StrCat(path, split == SplitOf::kTrain ? ": train" : ": test"), std::move(file),
                                        *std::move(records), std::move(names));
}

}  // namespace colonnade::data
