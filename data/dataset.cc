#include "data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/embedded.h"
#include "data/file.h"
#include "data/idx.h"
#include "data/no_split.h"
#include "program/formulas/philox.h"

namespace colonnade::data {
namespace {

constexpr double kLargestDigitValue = 16;
constexpr int64_t kLargestIdxFile = kMostIdxElements + (kMostIdxElements >> 6);  // its header, and what gzip may add
constexpr int64_t kSyntheticTrain = 4096, kSyntheticTest = 512;
constexpr int64_t kSyntheticPixels = int64_t{1} << 25, kFewestSynthetic = 64;
constexpr int64_t kMostSyntheticPixels = int64_t{1} << 28;  // even if there are fewer than the fewest then

const char* Prefix(SplitOf split) { return split == SplitOf::kTrain ? "train" : "t10k"; }

absl::StatusOr<ImageSet> Digits(SplitOf split) {
  absl::string_view images, labels;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == absl::StrCat(Prefix(split), "-images-idx3-ubyte.gz")) images = file.bytes;
    if (file.name == absl::StrCat(Prefix(split), "-labels-idx1-ubyte.gz")) labels = file.bytes;
  }
  absl::StatusOr<ImageSet> set = ParseIdxPair(images, "embedded digits images", labels, "embedded digits labels", 10);
  if (set.ok()) set->largest_value = kLargestDigitValue;
  return set;
}

absl::StatusOr<ImageSet> Synthetic(SplitOf split, const DatasetOptions& options) {
  RETURN_IF_ERROR(base::WithContext(CheckImageShape(options.synthetic_shape), "synthetic_shape"));
  if (options.synthetic_classes < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("synthetic_classes: expected at least 1, found %d", options.synthetic_classes));
  }
  ImageSet set{.sample_shape = options.synthetic_shape, .classes = options.synthetic_classes, .are_all_classes_meant = true};
  const int64_t count = split == SplitOf::kTrain ? kSyntheticTrain : kSyntheticTest;
  const int64_t elements = program::ElementCount(set.sample_shape);
  // Large images come in smaller numbers, so that drawing them takes no time to speak of.
  const int64_t fewest = std::clamp(kMostSyntheticPixels / elements, int64_t{1}, kFewestSynthetic);
  const int64_t samples = std::clamp(kSyntheticPixels / elements, fewest, count);
  set.pixels.resize(samples * elements);
  for (int64_t s = 0; s < samples; ++s) {
    set.labels.push_back(static_cast<int32_t>(s % set.classes));
    const uint32_t lift = static_cast<uint32_t>(s % set.classes * 96 / set.classes);
    for (int64_t i = 0; i < elements; i += 16) {
      const program::Philox4 r =
          program::RandomBlock(0, program::RandomPurpose::kSyntheticData, static_cast<uint32_t>(split),
                               static_cast<uint64_t>(s), static_cast<uint64_t>(i));
      for (int64_t j = i; j < std::min(elements, i + 16); ++j) {
        set.pixels[s * elements + j] =
            static_cast<uint8_t>((r.v[(j - i) / 4] >> (8 * ((j - i) % 4)) & 0xff) * 160 / 256 + lift);
      }
    }
  }
  return set;
}

absl::StatusOr<std::string> ReadEither(const std::string& path, std::string& found) {
  for (const char* suffix : {"", ".gz"}) {
    found = absl::StrCat(path, suffix);
    std::string bytes;
    const absl::Status status = ReadInto(found, kLargestIdxFile, bytes);
    if (status.ok()) return bytes;
    if (!absl::IsNotFound(status)) return status;
  }
  return absl::NotFoundError(absl::StrFormat("cannot read %s: no such file, nor with .gz", path));
}

absl::StatusOr<ImageSet> Folder(const std::string& path, SplitOf split, int64_t classes) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(
        absl::StrFormat("data \"%s\": expected digits, synthetic, or a folder with MNIST's files, found no such folder%s",
                        path, base::DidYouMean("; ", path, {"digits", "synthetic"})));
  }
  if (!HasIdxFiles(path, split)) {
    return NoSplit(absl::StrFormat("expected %s/%s-images-idx3-ubyte and %s-labels-idx1-ubyte, found neither, nor with .gz",
                                   path, Prefix(split), Prefix(split)));
  }
  std::string images_name, labels_name;
  ASSIGN_OR_RETURN(std::string images,
                   ReadEither(absl::StrCat(path, "/", Prefix(split), "-images-idx3-ubyte"), images_name));
  ASSIGN_OR_RETURN(std::string labels,
                   ReadEither(absl::StrCat(path, "/", Prefix(split), "-labels-idx1-ubyte"), labels_name));
  return ParseIdxPair(images, images_name, labels, labels_name, classes);
}

}  // namespace

bool HasIdxFiles(const std::string& folder, SplitOf split) {
  for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
    for (const char* suffix : {"", ".gz"}) {
      if (HasName(absl::StrCat(folder, "/", Prefix(split), kind, suffix))) return true;
    }
  }
  return false;
}

void PadImages(int64_t pad, ImageSet& set) {
  const int64_t planes = set.size() * set.sample_shape[0], rows = set.sample_shape[1], columns = set.sample_shape[2];
  const int64_t padded_rows = rows + 2 * pad, padded_columns = columns + 2 * pad;
  std::vector<uint8_t> pixels(planes * padded_rows * padded_columns);
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t y = 0; y < rows; ++y) {
      std::copy_n(set.pixels.begin() + (p * rows + y) * columns, columns,
                  pixels.begin() + (p * padded_rows + y + pad) * padded_columns + pad);
    }
  }
  set.pixels = std::move(pixels);
  set.sample_shape = {set.sample_shape[0], padded_rows, padded_columns};
  absl::StrAppend(&set.name, " padded by ", pad);
}

absl::StatusOr<ImageSet> OpenDataset(const std::string& spec, SplitOf split, const DatasetOptions& options) {
  ASSIGN_OR_RETURN(ImageSet set, spec == "digits"      ? Digits(split)
                                 : spec == "synthetic" ? Synthetic(split, options)
                                                       : Folder(spec, split, options.classes));
  set.name = absl::StrCat(spec, split == SplitOf::kTrain ? " train" : " test");
  if (options.pad > 0) PadImages(options.pad, set);
  return set;
}

}  // namespace colonnade::data
