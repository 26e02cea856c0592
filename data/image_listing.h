// Which image files lie in the class folders of a folder: listed once, and kept in a file of the user's cache.
#ifndef COLONNADE_DATA_IMAGE_LISTING_H_
#define COLONNADE_DATA_IMAGE_LISTING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/file.h"

namespace colonnade::data {

// Returns whether a file is an image by its name: .jpg, .jpeg or .png in any case.
bool HasImageEnding(absl::string_view file_name);
// Returns whether systems and programs have left it behind, or a folder in which it lies: ".DS_Store", "train/._a.jpg",
// "train/.ipynb_checkpoints/a.jpg".
bool IsHidden(absl::string_view path);

// A folder that a walk has come to.
struct WalkedFolder {
  std::string path;                // from the root
  FolderState state = {};          // as it was before it was listed
  std::vector<std::string> files;  // by name; what is hidden is left out
};
// What links are that lead nowhere: files, or errors, NotFound, but where they are called as images are.
enum class LinksToNothing { kAreFiles, kAreErrors };
// Returns folder `first` of `root` ("": the root itself) and all below it, also behind links, each before those in it.
// Returns the error that `again` makes of a folder to which links lead again; NotFound or DataLoss where one cannot be read.
absl::StatusOr<std::vector<WalkedFolder>> WalkFolders(const std::string& root, const std::string& first,
                                                      LinksToNothing to_nothing,
                                                      absl::FunctionRef<absl::Status(const std::string& folder)> again);

struct ImageListing {
  struct FolderOfImages {
    std::string path;        // from the root: "" the root itself, "cat", "cat/kittens"
    FolderState state = {};  // as it was before it was listed
    int32_t label = -1;      // of the class it lies in; −1: the root
  };
  struct File {
    int32_t folder = 0;   // of `folders`
    int64_t name_at = 0;  // in `names`
  };
  std::vector<std::string> classes;     // sorted by name
  std::vector<FolderOfImages> folders;  // the root first
  std::vector<File> files;              // by class, then folder, then name, as bytes
  std::string names;                    // of files, each with a zero byte behind it: a million need no million of strings
  int64_t left_out = 0;                 // files in class folders with other endings, and images beside those folders
  std::string left_out_path;            // one of them, from the root

  std::string PathOf(int64_t file) const;  // from the root
  void Add(int32_t folder, absl::string_view name);
};

// What is hidden is listed nowhere. Links to nothing are errors.

// Returns the folders in `root`, sorted by name: the classes. Links to folders count.
absl::StatusOr<std::vector<std::string>> ListClasses(const std::string& root);

// Walks through every class folder. InvalidArgument where a class has no images (it names the class) and where links lead in
// a circle, or again to a folder of the class (it names the folder); NotFound or DataLoss where a folder cannot be read.
absl::StatusOr<ImageListing> ListImages(const std::string& root);

// Returns the same listing, read from a file in `cache_folder` ("": none) if the file is intact and no folder has changed
// since it was listed; else lists the images, and writes that file if it can. It keeps no listing with a folder whose
// time of modification is less than two seconds ago, since that may change again without a new time.
absl::StatusOr<ImageListing> ListImagesOnce(const std::string& root, const std::string& cache_folder);

// Convert a listing to and from the form in which it is kept, with a checksum and the root. UnpackListing returns nothing
// where the checksum or the root differs.
std::string PackListing(const ImageListing& listing, const std::string& root);
std::optional<ImageListing> UnpackListing(absl::string_view packed, const std::string& root);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IMAGE_LISTING_H_
