#include "data/cifar.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "data/class_names.h"
#include "data/file.h"
#include "data/memory_set.h"
#include "data/no_split.h"
#include "data/split_files.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kCifar10Batches = 5;
constexpr int64_t kLargestCifarFile = int64_t{1} << 31, kLargestNamesFile = 1 << 20;

bool CifarPathExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What is to be read of a folder, or the one file.
struct CifarFiles {
  std::vector<std::string> paths;
  std::string names_path;  // "": none
  std::vector<std::string> notes;
};

bool IsTrainingBatch(absl::string_view file) {
  return absl::StartsWith(file, "data_batch_") && absl::EndsWith(file, ".bin");
}

std::vector<std::string> TrainingBatches(const std::string& folder) { return FilesIn(folder, IsTrainingBatch); }

bool IsCifar10Folder(const std::string& path) {
  return CifarPathExists(absl::StrCat(path, "/test_batch.bin")) || !TrainingBatches(path).empty();
}

bool IsCifar100Folder(const std::string& path) {
  return CifarPathExists(absl::StrCat(path, "/train.bin")) || CifarPathExists(absl::StrCat(path, "/test.bin"));
}

bool IsCifarFile(const std::string& path) {
  std::error_code error;
  return absl::EndsWith(path, ".bin") && fs::is_regular_file(path, error);
}

absl::Status NoTestImages(const std::string& folder, const char* file) {
  return NoSplit(absl::StrFormat("%s: expected test images in %s, found no such file", folder, file));
}

absl::StatusOr<CifarFiles> FindCifarFiles(const std::string& path, SplitOf split) {
  const bool train = split == SplitOf::kTrain;
  if (IsCifarFile(path)) {
    if (train) return CifarFiles{{path}, ""};
    return NoSplit(absl::StrFormat(
        "%s: one file is a training set alone; a folder with test_batch.bin or test.bin has test images", path));
  }
  if (IsCifar10Folder(path)) {
    CifarFiles files{TrainingBatches(path), absl::StrCat(path, "/batches.meta.txt")};
    const size_t batches = files.paths.size();
    if (train && batches != kCifar10Batches) {
      files.notes.push_back(absl::StrFormat("%d of CIFAR-10's %d files of training images", batches, kCifar10Batches));
    }
    if (!train) files.paths = {absl::StrCat(path, "/test_batch.bin")};
    if (!train && !CifarPathExists(files.paths[0])) return NoTestImages(path, "test_batch.bin");
    if (!files.paths.empty()) return files;
    return absl::NotFoundError(absl::StrFormat("%s: expected data_batch_1.bin …, found test_batch.bin alone", path));
  }
  if (!train && !CifarPathExists(absl::StrCat(path, "/test.bin"))) return NoTestImages(path, "test.bin");
  return CifarFiles{{absl::StrCat(path, train ? "/train.bin" : "/test.bin")}, absl::StrCat(path, "/fine_label_names.txt")};
}

// None where the file is not there.
absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::string& path, int64_t classes) {
  std::vector<std::string> names;
  if (path.empty() || !CifarPathExists(path)) return names;
  std::string text;
  RETURN_IF_ERROR(ReadInto(path, kLargestNamesFile, text));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) names.emplace_back(line);
  }
  if (static_cast<int64_t>(names.size()) != classes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected the names of %d classes, one on each line, found %d", path, classes, names.size()));
  }
  return names;
}

bool LabelsFit(absl::string_view file, const CifarKind& kind) {
  for (size_t at = kind.label_bytes - 1; at < file.size(); at += kind.record_bytes()) {
    if (static_cast<unsigned char>(file[at]) >= kind.classes) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<CifarKind> KindOfCifar(absl::string_view file, const std::string& name) {
  const auto size = static_cast<int64_t>(file.size());
  const bool may_be_10 = size % kCifar10.record_bytes() == 0, may_be_100 = size % kCifar100.record_bytes() == 0;
  if (may_be_10 && may_be_100) return LabelsFit(file, kCifar10) ? kCifar10 : kCifar100;
  if (may_be_10) return kCifar10;
  if (may_be_100) return kCifar100;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: expected records of %d bytes (CIFAR-10) or %d (CIFAR-100), found %d bytes: %d and %d more, or %d and %d more",
      name, kCifar10.record_bytes(), kCifar100.record_bytes(), size, size / kCifar10.record_bytes(),
      size % kCifar10.record_bytes(), size / kCifar100.record_bytes(), size % kCifar100.record_bytes()));
}

absl::Status AppendCifar(absl::string_view file, const std::string& name, const CifarKind& kind, ImageSet& set) {
  const auto size = static_cast<int64_t>(file.size());
  const int64_t step = kind.record_bytes(), count = size / step;
  if (count == 0 || size % step != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: expected records of %d bytes, found %d bytes: %d records and %d more", name, step, size, count, size % step));
  }
  std::vector<int32_t> labels;
  labels.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<unsigned char>(file[i * step + kind.label_bytes - 1]));
    if (absl::Status status = CheckLabel(labels.back(), kind.classes); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: record %d: %s", name, i, status.message()));
    }
  }
  set.labels.insert(set.labels.end(), labels.begin(), labels.end());
  for (int64_t i = 0; i < count; ++i) {
    const absl::string_view pixels = file.substr(i * step + kind.label_bytes, step - kind.label_bytes);
    set.pixels.insert(set.pixels.end(), pixels.begin(), pixels.end());
  }
  return absl::OkStatus();
}

bool IsCifar(const std::string& path) { return IsCifarFile(path) || IsCifar10Folder(path) || IsCifar100Folder(path); }

absl::StatusOr<std::unique_ptr<SampleSet>> OpenCifar(const std::string& path, SplitOf split, const DatasetOptions& options) {
  ASSIGN_OR_RETURN(CifarFiles files, FindCifarFiles(path, split));
  const bool is_one_file = IsCifarFile(path);
  CifarKind kind = IsCifar10Folder(path) ? kCifar10 : kCifar100;
  ImageSet set{.name = absl::StrCat(path, split == SplitOf::kTrain ? ": train" : ": test"), .sample_shape = {3, 32, 32}};
  std::string bytes;
  for (const std::string& file : files.paths) {
    RETURN_IF_ERROR(ReadInto(file, kLargestCifarFile, bytes));
    if (is_one_file) {
      ASSIGN_OR_RETURN(kind, KindOfCifar(bytes, file));
    }
    CifarKind limited = kind;
    if (options.classes > 0) limited.classes = std::min(options.classes, kind.classes);
    RETURN_IF_ERROR(AppendCifar(bytes, file, limited, set));
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, ReadClassNames(files.names_path, kind.classes));
  set.classes = options.classes > 0 ? options.classes : kind.classes;
  if (options.pad > 0) PadImages(options.pad, set);
  ASSIGN_OR_RETURN(names, NameClasses(std::move(names), set.labels, set.classes));
  return MemorySet::Create(std::move(set), std::move(names), std::move(files.notes));
}

}  // namespace colonnade::data
