#include "data/unlabelled_images.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "data/file.h"
#include "data/image_listing.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

class ImagesWithoutLabels final : public SampleSet {
 public:
  ImagesWithoutLabels(std::vector<std::string> files, std::vector<std::string> class_names)
      : name_(base::Counted(files.size(), "image file")), files_(std::move(files)), class_names_(std::move(class_names)) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int32_t label(int64_t /*sample*/) const override { return -1; }
  std::string sample_name(int64_t sample) const override { return files_[static_cast<size_t>(sample)]; }
  const std::vector<std::string>& class_names() const override { return class_names_; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    RETURN_IF_ERROR(ReadInto(sample_name(sample), kLargestImageFile, room));
    return StoredImage{.is_encoded = true, .bytes = room};
  }

 private:
  std::string name_;
  std::vector<std::string> files_, class_names_;
};

absl::StatusOr<std::vector<std::string>> ImagesBelow(const std::string& root) {
  ASSIGN_OR_RETURN(const std::vector<WalkedFolder> folders,
                   WalkFolders(root, "", LinksToNothing::kAreFiles, [](const std::string& folder) {
                     return absl::InvalidArgumentError(absl::StrCat(
                         folder,
                         ": expected each folder once, found one that was listed: links lead to it again, and its "
                         "images would be twice"));
                   }));
  std::vector<std::string> found;
  for (const WalkedFolder& folder : folders) {
    for (const std::string& name : folder.files) {
      if (HasImageEnding(name)) found.push_back((fs::path(root) / folder.path / name).string());
    }
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(root, ": expected images (.jpg, .jpeg or .png) in it or in a folder below, found none"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListImageFiles(absl::Span<const std::string> paths) {
  if (std::none_of(paths.begin(), paths.end(), HasName)) {
    return absl::NotFoundError(
        absl::StrCat(paths.empty() ? "no path" : paths[0], ": expected an image file or a folder of them, found nothing"));
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    ASSIGN_OR_RETURN(std::vector<std::string> below, ImagesBelow(path));
    std::move(below.begin(), below.end(), std::back_inserter(files));
  }
  return files;
}

std::unique_ptr<SampleSet> UnlabelledImages(std::vector<std::string> files, std::vector<std::string> class_names) {
  return std::make_unique<ImagesWithoutLabels>(std::move(files), std::move(class_names));
}

}  // namespace colonnade::data
