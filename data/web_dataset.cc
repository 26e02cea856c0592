#include "data/web_dataset.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/class_names.h"
#include "data/file.h"
#include "data/no_split.h"
#include "data/split_files.h"
#include "data/split_names.h"
#include "data/tar.h"
#include "data/tar_samples.h"

namespace colonnade::data {
namespace {

constexpr const char* kPackedEndings[] = {".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar.zst"};
// Shards that stay open. Systems allow 1024 files by default; more shards are opened for each read.
constexpr size_t kMostOpenShards = 256;

bool IsShardOf(absl::string_view split, absl::string_view name) {
  return absl::StartsWith(name, absl::StrCat(split, "-")) && absl::EndsWith(name, ".tar");
}

std::vector<std::string> ShardsIn(const std::string& folder, absl::string_view split) {
  return FilesIn(folder, [split](absl::string_view name) { return IsShardOf(split, name); });
}

bool IsPackedTar(const std::string& path) {
  std::error_code error;
  return std::any_of(std::begin(kPackedEndings), std::end(kPackedEndings),
                     [&path](const char* ending) { return absl::EndsWith(path, ending); }) &&
         std::filesystem::is_regular_file(path, error);
}

bool IsOneTar(const std::string& path) {
  std::error_code error;
  return absl::EndsWith(path, ".tar") && !std::filesystem::is_directory(path, error);
}

class TarShard {
 public:
  TarShard(OpenFile file, bool stays_open) : path_(file.path()), size_(file.size()) {
    if (stays_open) file_ = std::move(file);
  }
  const std::string& path() const { return path_; }

  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const {
    if (file_.has_value()) return file_->ReadAt(offset, to);
    ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path_));
    if (file.size() == size_) return file.ReadAt(offset, to);
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected %d bytes, as when it was opened, found %d", path_, size_, file.size()));
  }

 private:
  std::string path_;
  int64_t size_;
  std::optional<OpenFile> file_;
};

class WebDataset final : public SampleSet {
 public:
  explicit WebDataset(std::string name) : name_(std::move(name)) {}

  void Add(TarShard shard, TarSamples samples) {
    for (TarSample& sample : samples.samples) {
      labels_.push_back(sample.label);
      samples_.push_back({static_cast<int32_t>(shards_.size()), std::move(sample)});
    }
    for (const std::string& note : samples.notes) notes_.push_back(absl::StrCat(shard.path(), ": ", note));
    shards_.push_back(std::move(shard));
  }

  absl::Status Finish(std::vector<std::string> known, int64_t asked) {
    if (samples_.empty()) return absl::InvalidArgumentError(absl::StrCat(name_, ": expected samples, found none"));
    absl::StatusOr<std::vector<std::string>> names = NameClasses(std::move(known), labels_, asked);
    if (!names.ok()) return base::WithContext(names.status(), name_);
    class_names_ = *std::move(names);
    return absl::OkStatus();
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int32_t label(int64_t sample) const override { return labels_[sample]; }
  std::string sample_name(int64_t sample) const override {
    return absl::StrCat(shards_[samples_[sample].shard].path(), ": ", samples_[sample].sample.name);
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    const TarSample& place = samples_[sample].sample;
    if (place.size > kLargestImageFile) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: expected at most %d bytes, found %d", sample_name(sample), kLargestImageFile, place.size));
    }
    room.resize(static_cast<size_t>(place.size));
    const absl::Status status = shards_[samples_[sample].shard].ReadAt(place.offset, absl::MakeSpan(room));
    if (!status.ok()) return base::WithContext(status, absl::StrCat("sample ", place.name));
    return StoredImage{.is_encoded = true, .bytes = room};
  }

 private:
  struct Place {
    int32_t shard = 0;
    TarSample sample;
  };
  std::string name_;
  std::vector<TarShard> shards_;
  std::vector<Place> samples_;
  std::vector<int32_t> labels_;
  std::vector<std::string> class_names_, notes_;
};

struct ScannedTar {
  OpenFile file;
  TarIndex index;
};

absl::StatusOr<ScannedTar> ScanFile(const std::string& path) {
  ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path));
  absl::StatusOr<TarIndex> index = ScanTar(file);
  if (!index.ok()) return base::WithContext(index.status(), path);
  return ScannedTar{std::move(file), *std::move(index)};
}

void NotePassedOver(const TarIndex& index, TarSamples& samples) {
  if (index.passed_over == 0) return;
  samples.notes.push_back(absl::StrCat("links and devices passed over: ", index.passed_over));
}

absl::StatusOr<std::unique_ptr<SampleSet>> OpenOneTar(const std::string& path, SplitOf split, const DatasetOptions& options,
                                                      std::string name) {
  ASSIGN_OR_RETURN(ScannedTar tar, ScanFile(path));
  const bool by_key = HasClassMember(tar.index);
  if (by_key && split == SplitOf::kTest) {
    return NoSplit(absl::StrFormat(
        "%s: one archive with members .cls is a training set alone; a folder with val-*.tar or test-*.tar has test images",
        path));
  }
  absl::StatusOr<TarSamples> samples =
      by_key ? SamplesByKey(tar.file, tar.index, options.classes) : SamplesByFolder(tar.index, split, options.class_names);
  if (!samples.ok()) return base::WithContext(samples.status(), path);
  NotePassedOver(tar.index, *samples);
  std::vector<std::string> known = samples->class_names;
  auto set = std::make_unique<WebDataset>(std::move(name));
  set->Add(TarShard(std::move(tar.file), true), *std::move(samples));
  RETURN_IF_ERROR(set->Finish(std::move(known), options.classes));
  return set;
}

absl::StatusOr<std::vector<std::string>> FindShards(const std::string& folder, SplitOf split) {
  const auto is_there = [&folder](absl::string_view name) { return !ShardsIn(folder, name).empty(); };
  const absl::string_view name = split == SplitOf::kTrain ? kTrainName : TestNameAmong(is_there);
  if (!name.empty() && is_there(name)) return ShardsIn(folder, name);
  return NoSplit(absl::StrFormat("%s: expected %s, found none", folder,
                                 split == SplitOf::kTrain ? "train-*.tar" : "val-*.tar (or valid, validation, test)"));
}

}  // namespace

bool IsWebDataset(const std::string& path) {
  if (IsPackedTar(path) || IsOneTar(path)) return true;
  const auto is_shard = [](absl::string_view file) {
    return IsShardOf(kTrainName, file) || IsShardOf("val", file) || IsShardOf("test", file);
  };
  return !FilesIn(path, is_shard).empty();
}

absl::StatusOr<std::unique_ptr<SampleSet>> OpenWebDataset(const std::string& path, SplitOf split,
                                                          const DatasetOptions& options) {
  const std::string name = absl::StrCat(path, split == SplitOf::kTrain ? ": train" : ": test");
  if (IsPackedTar(path)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: expected an archive that can be read at any place, found a packed one; unpack it to .tar or to a folder",
        path));
  }
  if (IsOneTar(path)) return OpenOneTar(path, split, options, name);
  ASSIGN_OR_RETURN(std::vector<std::string> shards, FindShards(path, split));
  auto set = std::make_unique<WebDataset>(name);
  for (const std::string& shard : shards) {
    ASSIGN_OR_RETURN(ScannedTar tar, ScanFile(shard));
    absl::StatusOr<TarSamples> samples = SamplesByKey(tar.file, tar.index, options.classes);
    if (!samples.ok()) return base::WithContext(samples.status(), shard);
    NotePassedOver(tar.index, *samples);
    set->Add(TarShard(std::move(tar.file), shards.size() <= kMostOpenShards), *std::move(samples));
  }
  RETURN_IF_ERROR(set->Finish({}, options.classes));
  return set;
}

}  // namespace colonnade::data
