#include "data/formats.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "data/cifar.h"
#include "data/image_folder.h"
#include "data/image_listing.h"
#include "data/image_records.h"
#include "data/memory_set.h"
#include "data/web_dataset.h"

namespace colonnade::data {
namespace {

bool IsDigits(const std::string& spec) { return spec == "digits"; }
bool IsSynthetic(const std::string& spec) { return spec == "synthetic"; }

bool IsIdxFolder(const std::string& spec) { return HasIdxFiles(spec, SplitOf::kTrain) || HasIdxFiles(spec, SplitOf::kTest); }

absl::StatusOr<std::unique_ptr<SampleSet>> OpenInMemory(const std::string& spec, SplitOf split,
                                                        const DatasetOptions& options) {
  ASSIGN_OR_RETURN(ImageSet set, OpenDataset(spec, split, options));
  return MemorySet::Create(std::move(set));
}

constexpr Format kFormats[] = {
    {"digits", "the word: 1,797 images that are part of the program", IsDigits, OpenInMemory},
    {"synthetic", "the word: random images of any shape", IsSynthetic, OpenInMemory},
    {"IDX", "a folder with MNIST's train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…, plain or .gz", IsIdxFolder,
     OpenInMemory},
    {"CIFAR", "a folder with data_batch_1.bin … and test_batch.bin, or train.bin and test.bin; or one .bin file", IsCifar,
     OpenCifar},
    {"RecordIO", "a .rec file, or a folder with train.rec or …_train.rec", IsRecordFile, OpenImageRecords},
    {"tar",
     "a .tar with class folders or with KEY.jpg and KEY.cls, or a folder with train-*.tar and val-*.tar (or valid, "
     "validation, test)",
     IsWebDataset, OpenWebDataset},
    {"image folder",
     "a folder with train/CLASS/IMAGE and val/CLASS/IMAGE (or valid, validation, test), or with CLASS/IMAGE alone",
     IsImageFolder, OpenImageFolder},
};

absl::Status Unrecognised(const std::string& spec) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(spec, error);
  if (std::filesystem::is_regular_file(found) && HasImageEnding(spec)) {
    return absl::NotFoundError(absl::StrFormat(
        "data \"%s\": expected a data set, such as a folder of images, found a single image; `colonnade predict` takes "
        "images",
        spec));
  }
  const char* what = std::filesystem::is_directory(found) ? "a folder with none of them"
                     : std::filesystem::exists(found)     ? "a file of another kind"
                                                          : "no such name, file or folder";
  const bool is_there = std::filesystem::exists(found);
  std::vector<std::string> known;
  for (const Format& format : kFormats) {
    known.push_back(is_there ? absl::StrCat(format.name, ": ", format.looks_like) : format.name);
  }
  return absl::NotFoundError(absl::StrFormat(
      "data \"%s\": expected a data set of a known format, found %s%s; known are %s", spec, what,
      is_there ? "" : base::DidYouMean(", ", spec, {"digits", "synthetic"}), absl::StrJoin(known, is_there ? "; " : ", ")));
}

}  // namespace

absl::Span<const Format> Formats() { return kFormats; }

absl::StatusOr<std::unique_ptr<SampleSet>> OpenSamples(const std::string& spec, SplitOf split,
                                                       const DatasetOptions& options) {
  for (const Format& format : kFormats) {
    if (!format.recognises(spec)) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<SampleSet> set, format.opens(spec, split, options));
    if (options.pad > 0 && split == SplitOf::kTrain && !set->image_shape().has_value()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("data \"%s\": expected images of one size to be padded, found %s, whose images have any; "
                          "--augment=pad:%d takes them",
                          spec, format.name, options.pad));
    }
    return set;
  }
  return Unrecognised(spec);
}

}  // namespace colonnade::data
