#include "data/unlabelled_images.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/file.h"
#include "data/image_listing.h"
#include "program/status_macros.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestAskedFile = int64_t{1} << 30;

class ImagesWithoutLabels final : public SampleSet {
 public:
  ImagesWithoutLabels(std::vector<std::string> files, std::vector<std::string> class_names)
      : name_(absl::StrFormat("%d image file%s", files.size(), files.size() == 1 ? "" : "s")),
        files_(std::move(files)),
        class_names_(std::move(class_names)) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int32_t label(int64_t /*sample*/) const override { return -1; }
  std::string sample_name(int64_t sample) const override { return files_[static_cast<size_t>(sample)]; }
  const std::vector<std::string>& class_names() const override { return class_names_; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    RETURN_IF_ERROR(ReadInto(sample_name(sample), kLargestAskedFile, room));
    return StoredImage{.is_encoded = true, .bytes = room};
  }

 private:
  std::string name_;
  std::vector<std::string> files_, class_names_;
};

// The folders that a walk has come to, behind whatever links.
class FoldersSeen {
 public:
  absl::Status Add(const std::string& folder) {
    ASSIGN_OR_RETURN(const FolderState state, StateOf(folder));
    if (seen_.emplace(state.device, state.inode).second) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": expected each folder once, found a link to one that was listed; its images would be twice"));
  }

 private:
  std::set<std::pair<uint64_t, uint64_t>> seen_;
};

absl::StatusOr<std::vector<std::string>> ImagesBelow(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  FoldersSeen seen;
  RETURN_IF_ERROR(seen.Add(folder));
  constexpr auto kFollowsLinks = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(folder, kFollowsLinks, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    std::error_code none;
    if (IsHidden(it->path().filename().string())) {
      it.disable_recursion_pending();
    } else if (it->is_directory(none)) {
      RETURN_IF_ERROR(seen.Add(path));
    } else if (HasImageEnding(path)) {
      found.push_back(path);
    }
  }
  if (error) return absl::DataLossError(absl::StrCat(folder, ": expected a folder that can be read: ", error.message()));
  if (found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": expected images (.jpg, .jpeg or .png) in it or in a folder below, found none"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListImageFiles(absl::Span<const std::string> paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!HasName(path)) {
      return absl::NotFoundError(absl::StrCat(path, ": expected an image file or a folder of them, found nothing"));
    }
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
