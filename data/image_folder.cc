#include "data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/class_names.h"
#include "data/file.h"
#include "data/image_listing.h"
#include "data/no_split.h"
#include "data/split_names.h"
#include "data/user_cache.h"

namespace colonnade::data {
namespace {

// A link is one, too, also to nothing: then reading it says so.
bool IsSplitFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) || std::filesystem::is_symlink(path, error);
}

// Where the class folders of both splits are; "": nowhere.
struct SplitFolders {
  std::string train, test;
};

SplitFolders FindSplits(const std::string& path) {
  SplitFolders found;
  const auto folder_of = [&path](absl::string_view name) { return absl::StrCat(path, "/", name); };
  const auto is_there = [&](absl::string_view name) { return IsSplitFolder(folder_of(name)); };
  if (const absl::string_view name = TestNameAmong(is_there); !name.empty()) found.test = folder_of(name);
  if (is_there(kTrainName)) found.train = folder_of(kTrainName);
  if (found.train.empty() && found.test.empty()) found.train = path;
  return found;
}

// "; X, the folder above, has both: name that one", where `path` is one split of two: X/val.
std::string AdviceOnFolderAbove(const std::string& path) {
  std::filesystem::path split = std::filesystem::path(path).lexically_normal();
  if (!split.has_filename()) split = split.parent_path();  // X/val/
  const std::string name = split.filename().string(), above = split.has_parent_path() ? split.parent_path().string() : ".";
  const SplitFolders beside = FindSplits(above);
  const std::string train = absl::StrCat(above, "/", kTrainName), own = absl::StrCat(above, "/", name);
  if (beside.test.empty() || beside.train != train || (own != train && own != beside.test)) return "";
  return absl::StrFormat("; %s, the folder above, has both: name that one", above);
}

// InvalidArgument where the one folder of `path` that has splits is a set of both, or there is no other folder: the folder
// above a set was named.
absl::Status CheckHoldsNoSet(const std::string& path) {
  const std::vector<std::string> classes = ListClasses(path).value_or(std::vector<std::string>());
  std::vector<std::string> sets;
  for (const std::string& name : classes) {
    const std::string folder = (std::filesystem::path(path) / name).string();
    if (IsSplitFolder(absl::StrCat(folder, "/", kTrainName))) sets.push_back(folder);
  }
  if (sets.size() != 1) return absl::OkStatus();
  const std::string test = std::filesystem::path(FindSplits(sets[0]).test).filename().string();
  if (test.empty() && classes.size() > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected folders of classes, found %s, which holds %s%s; did you mean %s?", path, sets[0],
                      kTrainName, test.empty() ? "" : " and " + test, sets[0]));
}

absl::Status NoSplitIn(const std::string& path, const SplitFolders& found, SplitOf split) {
  if (split == SplitOf::kTrain) {
    return NoSplit(
        absl::StrFormat("%s: expected training images in %s/%s, found %s alone", path, path, kTrainName, found.test));
  }
  const bool is_one_set = found.train == path;
  return NoSplit(absl::StrFormat("%s: expected test images in %s/val, valid, validation or test, found %s alone%s", path,
                                 path, is_one_set ? "class folders of one set" : found.train,
                                 is_one_set ? AdviceOnFolderAbove(path) : ""));
}

// `classes` must outlive the result.
absl::flat_hash_map<absl::string_view, int32_t> LabelsOf(const std::vector<std::string>& classes) {
  absl::flat_hash_map<absl::string_view, int32_t> labels;
  for (size_t label = 0; label < classes.size(); ++label) labels.emplace(classes[label], static_cast<int32_t>(label));
  return labels;
}

class ImageFolder final : public SampleSet {
 public:
  ImageFolder(std::string name, std::string root, ImageListing listing)
      : name_(std::move(name)), root_(std::move(root)), listing_(std::move(listing)) {}

  // Takes the classes of the training set for those of the listing.
  absl::Status Number(std::vector<std::string> classes, int64_t asked) {
    const absl::flat_hash_map<absl::string_view, int32_t> labels = LabelsOf(classes);
    for (const std::string& name : listing_.classes) {
      const auto label = labels.find(name);
      if (label == labels.end()) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: expected classes of the training set, found class \"%s\"", root_, name));
      }
      labels_.push_back(label->second);
    }
    NoteMissing(classes);
    absl::StatusOr<std::vector<std::string>> names = NameClasses(std::move(classes), {}, asked);
    if (!names.ok()) return base::WithContext(names.status(), root_);
    class_names_ = *std::move(names);
    return absl::OkStatus();
  }

  void NoteLeftOut() { NoteOfRoot(NoteOfLeftOut(listing_.left_out, listing_.left_out_path)); }
  void Note(std::string note) { notes_.push_back(std::move(note)); }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(listing_.files.size()); }
  int32_t label(int64_t sample) const override { return labels_[listing_.folders[listing_.files[sample].folder].label]; }
  std::string sample_name(int64_t sample) const override { return absl::StrCat(root_, "/", listing_.PathOf(sample)); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override {
    RETURN_IF_ERROR(ReadInto(sample_name(sample), kLargestImageFile, room));
    return StoredImage{.is_encoded = true, .bytes = room};
  }

 private:
  void NoteMissing(const std::vector<std::string>& classes) {
    std::vector<std::string> missing;
    absl::c_copy_if(classes, std::back_inserter(missing),
                    [&](const std::string& name) { return !absl::c_binary_search(listing_.classes, name); });
    NoteOfRoot(NoteOfMissing(std::move(missing), classes.size()));
  }
  void NoteOfRoot(const std::string& note) {
    if (!note.empty()) notes_.push_back(absl::StrCat(root_, ": ", note));
  }

  std::string name_, root_;
  ImageListing listing_;
  std::vector<int32_t> labels_;  // by class of the listing
  std::vector<std::string> class_names_, notes_;
};

}  // namespace

bool IsImageFolder(const std::string& path) {
  std::error_code error, none;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(none)) return true;
  }
  return error == std::errc::permission_denied;  // so that opening it says so
}

absl::StatusOr<std::unique_ptr<SampleSet>> OpenImageFolder(const std::string& path, SplitOf split,
                                                           const DatasetOptions& options) {
  const SplitFolders found = FindSplits(path);
  const bool train = split == SplitOf::kTrain;
  const std::string& root = train ? found.train : found.test;
  if (found.train == path) RETURN_IF_ERROR(CheckHoldsNoSet(path));
  if (root.empty()) return NoSplitIn(path, found, split);
  ASSIGN_OR_RETURN(ImageListing listing, ListImagesOnce(root, UserCacheFolder()));
  std::vector<std::string> classes = listing.classes;
  const bool are_known = found.train.empty() && HaveAll(options.class_names, listing.classes);
  if (are_known) {
    classes = options.class_names;
  } else if (!train && !found.train.empty()) {
    ASSIGN_OR_RETURN(classes, ListClasses(found.train));
  }
  auto set = std::make_unique<ImageFolder>(absl::StrCat(path, train ? ": train" : ": test"), root, std::move(listing));
  RETURN_IF_ERROR(set->Number(std::move(classes), options.classes));
  set->NoteLeftOut();
  if (found.train.empty() && !are_known)
    set->Note(absl::StrFormat("%s: its own folders are the classes: there is no %s/train", root, path));
  return set;
}

}  // namespace colonnade::data
