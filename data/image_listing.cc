#include "data/image_listing.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "data/file.h"

namespace colonnade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageEndings[] = {".jpg", ".jpeg", ".png"};

absl::Status CannotList(const std::string& folder, const std::error_code& error) {
  const std::string message = absl::StrFormat("cannot read folder %s: %s", folder, error.message());
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(message) : absl::DataLossError(message);
}

bool LeadsNowhere(const fs::directory_entry& entry) {
  std::error_code none;
  return entry.is_symlink(none) && entry.status(none).type() == fs::file_type::not_found;
}

// It may be a class, or a part of one, on a disk that is not there today.
absl::Status LinkToNothing(const fs::path& link) {
  std::error_code none;
  return absl::NotFoundError(
      absl::StrFormat("%s: expected a folder or a file, found a link to %s, which is not there; "
                      "bring it back, or remove the link",
                      link.string(), fs::read_symlink(link, none).string()));
}

struct FolderEntries {
  std::vector<std::string> folders, files;  // sorted
};

absl::StatusOr<FolderEntries> EntriesOf(const std::string& folder, LinksToNothing to_nothing) {
  FolderEntries entries;
  std::error_code error, none;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (IsHidden(name)) continue;
    if (to_nothing == LinksToNothing::kAreErrors && LeadsNowhere(*it) && !HasImageEnding(name))
      return LinkToNothing(it->path());
    // Else a link that leads nowhere counts as a file: reading it says so.
    (it->is_directory(none) ? entries.folders : entries.files).push_back(std::move(name));
  }
  if (error) return CannotList(folder, error);
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

std::string Joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : absl::StrCat(folder, "/", name);
}

absl::StatusOr<std::vector<std::string>> ClassesOf(const std::string& root, std::vector<std::string> folders) {
  if (!folders.empty()) return folders;
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected a folder for each class, found none", root));
}

// The walk from one folder through all below it.
class FolderWalk {
 public:
  using Again = absl::FunctionRef<absl::Status(const std::string& folder)>;

  FolderWalk(const std::string& root, LinksToNothing to_nothing, Again again)
      : root_(root), to_nothing_(to_nothing), again_(again) {}

  absl::Status Visit(const std::string& path) {
    const std::string folder = path.empty() ? root_ : absl::StrCat(root_, "/", path);
    ASSIGN_OR_RETURN(FolderState state, StateOf(folder));
    if (!seen_.insert({state.device, state.inode}).second) return again_(folder);
    ASSIGN_OR_RETURN(FolderEntries entries, EntriesOf(folder, to_nothing_));
    found_.push_back({path, state, std::move(entries.files)});
    for (const std::string& name : entries.folders) RETURN_IF_ERROR(Visit(Joined(path, name)));
    return absl::OkStatus();
  }
  std::vector<WalkedFolder> found() && { return std::move(found_); }

 private:
  const std::string& root_;
  const LinksToNothing to_nothing_;
  const Again again_;
  std::set<std::pair<uint64_t, uint64_t>> seen_;
  std::vector<WalkedFolder> found_;
};

void CountLeftOut(const WalkedFolder& folder, ImageListing& listing) {
  for (const std::string& name : folder.files) {
    if (!HasImageEnding(name) && listing.left_out++ == 0) listing.left_out_path = Joined(folder.path, name);
  }
}

void AddImages(const WalkedFolder& folder, int32_t label, ImageListing& listing) {
  listing.folders.push_back({folder.path, folder.state, label});
  for (const std::string& name : folder.files) {
    if (HasImageEnding(name)) listing.Add(static_cast<int32_t>(listing.folders.size()) - 1, name);
  }
}

absl::Status ListClass(const std::string& root, int32_t label, ImageListing& listing) {
  const std::string& name = listing.classes[label];
  const size_t files = listing.files.size();
  const int64_t left_out = listing.left_out;
  ASSIGN_OR_RETURN(std::vector<WalkedFolder> folders,
                   WalkFolders(root, name, LinksToNothing::kAreErrors, [&](const std::string& folder) {
                     return absl::InvalidArgumentError(absl::StrFormat(
                         "%s: expected a folder that class \"%s\" does not hold yet, found one that it does: links lead in "
                         "a circle, or twice to one folder",
                         folder, name));
                   }));
  for (const WalkedFolder& folder : folders) CountLeftOut(folder, listing);
  std::sort(folders.begin(), folders.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  for (const WalkedFolder& folder : folders) AddImages(folder, label, listing);
  if (listing.files.size() > files) return absl::OkStatus();
  const int64_t others = listing.left_out - left_out;
  return absl::InvalidArgumentError(absl::StrFormat("%s: class \"%s\": expected images (.jpg, .jpeg or .png), found %s",
                                                    root, name,
                                                    others == 0 ? "none" : base::Counted(others, "other file") + " alone"));
}

}  // namespace

absl::StatusOr<std::vector<WalkedFolder>> WalkFolders(const std::string& root, const std::string& first,
                                                      LinksToNothing to_nothing,
                                                      absl::FunctionRef<absl::Status(const std::string& folder)> again) {
  FolderWalk walk(root, to_nothing, again);
  RETURN_IF_ERROR(walk.Visit(first));
  return std::move(walk).found();
}

bool HasImageEnding(absl::string_view file_name) {
  return std::any_of(std::begin(kImageEndings), std::end(kImageEndings),
                     [file_name](const char* ending) { return absl::EndsWithIgnoreCase(file_name, ending); });
}

bool IsHidden(absl::string_view path) {
  for (absl::string_view name : absl::StrSplit(path, '/')) {
    if (absl::StartsWith(name, ".") && name != "." && name != "..") return true;
  }
  return false;
}

std::string ImageListing::PathOf(int64_t file) const {
  return absl::StrCat(folders[files[file].folder].path, "/", names.c_str() + files[file].name_at);
}

void ImageListing::Add(int32_t folder, absl::string_view name) {
  files.push_back({folder, static_cast<int64_t>(names.size())});
  names.append(name.data(), name.size()).push_back('\0');
}

absl::StatusOr<std::vector<std::string>> ListClasses(const std::string& root) {
  ASSIGN_OR_RETURN(FolderEntries entries, EntriesOf(root, LinksToNothing::kAreErrors));
  return ClassesOf(root, std::move(entries.folders));
}

absl::StatusOr<ImageListing> ListImages(const std::string& root) {
  ImageListing listing;
  ASSIGN_OR_RETURN(FolderState state, StateOf(root));
  listing.folders.push_back({"", state, -1});
  ASSIGN_OR_RETURN(FolderEntries entries, EntriesOf(root, LinksToNothing::kAreErrors));
  ASSIGN_OR_RETURN(listing.classes, ClassesOf(root, std::move(entries.folders)));
  for (const std::string& name : entries.files) {
    if (HasImageEnding(name) && listing.left_out++ == 0) listing.left_out_path = name;
  }
  for (size_t label = 0; label < listing.classes.size(); ++label) {
    RETURN_IF_ERROR(ListClass(root, static_cast<int32_t>(label), listing));
  }
  return listing;
}

}  // namespace colonnade::data
