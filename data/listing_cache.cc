// Listings that are kept (image_listing.h).

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/file.h"
#include "data/image_listing.h"

namespace colonnade::data {
namespace {

constexpr char kListingMark[] = "colonnade images 2";
constexpr size_t kChecksumDigits = 8;
constexpr int64_t kLargestListing = int64_t{1} << 34;
constexpr int64_t kSettledNs = 2'000'000'000;

uint32_t Crc32(absl::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t Adler32(absl::string_view bytes) {
  return static_cast<uint32_t>(adler32_z(1, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Fields with a zero byte behind each, which no path holds.
class FieldWriter {
 public:
  template <typename T>
  void Put(const T& field) {
    absl::StrAppend(&bytes_, field);
    bytes_.push_back('\0');
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes) : bytes_(bytes) {}
  bool Take(absl::string_view& field) {
    const size_t end = bytes_.find('\0');
    if (end == absl::string_view::npos) return false;
    field = bytes_.substr(0, end);
    bytes_.remove_prefix(end + 1);
    return true;
  }
  bool Take(std::string& field) {
    absl::string_view view;
    if (!Take(view)) return false;
    field = std::string(view);
    return true;
  }
  bool Take(int64_t& number) {
    absl::string_view field;
    return Take(field) && absl::SimpleAtoi(field, &number);
  }
  bool is_empty() const { return bytes_.empty(); }

 private:
  absl::string_view bytes_;
};

bool Take(FieldReader& reader, FolderState& state) {
  int64_t inode = 0;  // as bits
  if (!reader.Take(inode) || !reader.Take(state.modified_ns) || !reader.Take(state.changed_ns)) return false;
  state.inode = static_cast<uint64_t>(inode);
  return true;
}

bool TakeFolder(FieldReader& reader, ImageListing& listing) {
  ImageListing::FolderOfImages folder;
  int64_t label = 0, files = 0;
  if (!reader.Take(folder.path) || !Take(reader, folder.state) || !reader.Take(label) || !reader.Take(files)) return false;
  const bool is_root = listing.folders.empty();
  if (is_root ? label != -1 || files != 0 || !folder.path.empty() : label < 0) return false;
  if (label >= static_cast<int64_t>(listing.classes.size())) return false;
  folder.label = static_cast<int32_t>(label);
  listing.folders.push_back(std::move(folder));
  absl::string_view name;
  for (int64_t i = 0; i < files; ++i) {
    if (!reader.Take(name)) return false;
    listing.Add(static_cast<int32_t>(listing.folders.size()) - 1, name);
  }
  return true;
}

bool TakeListing(FieldReader& reader, const std::string& root, ImageListing& listing) {
  absl::string_view mark, packed_root;
  int64_t classes = 0, folders = 0;
  if (!reader.Take(mark) || mark != kListingMark || !reader.Take(packed_root) || packed_root != root) return false;
  if (!reader.Take(listing.left_out) || !reader.Take(listing.left_out_path) || !reader.Take(classes)) return false;
  std::string name;
  for (int64_t i = 0; i < classes; ++i) {
    if (!reader.Take(name) || (i > 0 && name <= listing.classes.back())) return false;
    listing.classes.push_back(std::move(name));
  }
  if (!reader.Take(folders) || folders < 1) return false;
  for (int64_t i = 0; i < folders; ++i) {
    if (!TakeFolder(reader, listing)) return false;
  }
  return reader.is_empty();
}

// Whether every folder is as it was when it was listed. Times that were set back do not hide a change.
bool IsUpToDate(const ImageListing& listing, const std::string& root) {
  return std::all_of(listing.folders.begin(), listing.folders.end(), [&root](const ImageListing::FolderOfImages& folder) {
    const absl::StatusOr<FolderState> state = StateOf(absl::StrCat(root, "/", folder.path));
    return state.ok() && state->inode == folder.state.inode && state->modified_ns == folder.state.modified_ns &&
           state->changed_ns == folder.state.changed_ns;
  });
}

bool IsSettled(const ImageListing& listing, int64_t listed_ns) {
  return std::all_of(listing.folders.begin(), listing.folders.end(),
                     [listed_ns](const auto& folder) { return folder.state.modified_ns < listed_ns - kSettledNs; });
}

std::string PathBehindLinks(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

}  // namespace

std::string PackListing(const ImageListing& listing, const std::string& root) {
  FieldWriter writer;
  writer.Put(kListingMark);
  writer.Put(root);
  writer.Put(listing.left_out);
  writer.Put(listing.left_out_path);
  writer.Put(listing.classes.size());
  for (const std::string& name : listing.classes) writer.Put(name);
  writer.Put(listing.folders.size());
  auto file = listing.files.begin();
  for (size_t i = 0; i < listing.folders.size(); ++i) {
    const auto end = std::find_if(file, listing.files.end(),
                                  [i](const ImageListing::File& f) { return f.folder != static_cast<int32_t>(i); });
    writer.Put(listing.folders[i].path);
    writer.Put(static_cast<int64_t>(listing.folders[i].state.inode));
    writer.Put(listing.folders[i].state.modified_ns);
    writer.Put(listing.folders[i].state.changed_ns);
    writer.Put(listing.folders[i].label);
    writer.Put(end - file);
    for (; file != end; ++file) writer.Put(listing.names.c_str() + file->name_at);
  }
  const std::string fields = writer.Take();
  return absl::StrFormat("%08x", Crc32(fields)) + fields;
}

std::optional<ImageListing> UnpackListing(absl::string_view packed, const std::string& root) {
  if (packed.size() < kChecksumDigits) return std::nullopt;
  const absl::string_view fields = packed.substr(kChecksumDigits);
  if (packed.substr(0, kChecksumDigits) != absl::StrFormat("%08x", Crc32(fields))) return std::nullopt;
  FieldReader reader(fields);
  ImageListing listing;
  if (!TakeListing(reader, root, listing)) return std::nullopt;
  return listing;
}

absl::StatusOr<ImageListing> ListImagesOnce(const std::string& root, const std::string& cache_folder) {
  if (cache_folder.empty()) return ListImages(root);
  const std::string place = PathBehindLinks(root);
  const std::string path = absl::StrFormat("%s/images-%08x%08x", cache_folder, Crc32(place), Adler32(place));
  std::string packed;
  if (ReadInto(path, kLargestListing, packed).ok()) {
    std::optional<ImageListing> kept = UnpackListing(packed, place);
    if (kept.has_value() && IsUpToDate(*kept, root)) return *std::move(kept);
  }
  const int64_t now = NowNs();
  ASSIGN_OR_RETURN(ImageListing listing, ListImages(root));
  std::error_code error;
  if (IsSettled(listing, now) && (std::filesystem::create_directories(cache_folder, error), !error)) {
    base::ReplaceFile(path, PackListing(listing, place)).IgnoreError();  // without it, the next run lists again
  }
  return listing;
}

}  // namespace colonnade::data
