#include "data/tar_samples.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/class_names.h"
#include "data/image_listing.h"
#include "data/no_split.h"
#include "data/split_names.h"

namespace colonnade::data {
namespace {

constexpr char kClassEnding[] = "cls";
constexpr int64_t kLongestClass = 32;

// A name without "./" before it.
absl::string_view PlainName(absl::string_view name) {
  while (absl::ConsumePrefix(&name, "./")) {
  }
  return name;
}

// Which members systems and programs have left behind. The folders in which all members lie hide nothing, as those do not
// that lead to a set of folders: only what differs is looked at.
class HiddenMembers {
 public:
  explicit HiddenMembers(const TarIndex& index) {
    if (index.members.empty()) return;
    common_ = FolderOf(PlainName(index.members[0].name));
    for (const TarMember& member : index.members) {
      const absl::string_view name = PlainName(member.name);
      const size_t most = std::min(name.size(), common_.size());
      const auto differs = std::mismatch(common_.begin(), common_.begin() + most, name.begin()).first;
      common_ = FolderOf(common_.substr(0, differs - common_.begin()));
    }
  }
  bool Has(const TarMember& member) const { return IsHidden(PlainName(member.name).substr(common_.size())); }

 private:
  static absl::string_view FolderOf(absl::string_view path) { return path.substr(0, path.rfind('/') + 1); }  // "a/b/" or ""

  absl::string_view common_;
};

// "a/b/c.seg.png" is of the key "a/b/c" and the ending "seg.png".
struct KeyedName {
  absl::string_view key, ending;
};

KeyedName KeyOf(absl::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t dot = name.find('.', slash == absl::string_view::npos ? 0 : slash + 1);
  if (dot == absl::string_view::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool IsImageKeyEnding(absl::string_view ending) {
  return absl::EqualsIgnoreCase(ending, "jpg") || absl::EqualsIgnoreCase(ending, "jpeg") ||
         absl::EqualsIgnoreCase(ending, "png");
}

struct KeyedMembers {
  absl::string_view key;
  const TarMember *image = nullptr, *label = nullptr;
};

absl::Status WrongKey(absl::string_view key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrFormat("sample \"%s\": %s", key, what));
}

absl::StatusOr<std::vector<KeyedMembers>> GroupByKey(const TarIndex& index) {
  std::vector<KeyedMembers> groups;
  absl::flat_hash_map<absl::string_view, size_t> group_of;
  const HiddenMembers hidden(index);
  for (const TarMember& member : index.members) {
    const KeyedName name = KeyOf(PlainName(member.name));
    const bool is_image = IsImageKeyEnding(name.ending), is_label = name.ending == kClassEnding;
    if ((!is_image && !is_label) || hidden.Has(member)) continue;
    const auto [at, is_new] = group_of.try_emplace(name.key, groups.size());
    if (is_new) groups.push_back({name.key});
    const TarMember*& place = is_image ? groups[at->second].image : groups[at->second].label;
    if (place != nullptr) {
      return WrongKey(name.key, absl::StrFormat("expected one %s, found %s and %s", is_image ? "image" : "class",
                                                place->name, member.name));
    }
    place = &member;
  }
  return groups;
}

absl::StatusOr<int32_t> ReadLabel(const ByteSource& file, const TarMember& member, int64_t classes) {
  if (member.size > kLongestClass) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a number in digits, found %d bytes", member.size));
  }
  std::string text(static_cast<size_t>(member.size), '\0');
  RETURN_IF_ERROR(file.ReadAt(member.offset, absl::MakeSpan(text)));
  int64_t label = 0;
  if (!absl::SimpleAtoi(text, &label)) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a number in digits, found \"%s\"", absl::CHexEscape(text)));
  }
  RETURN_IF_ERROR(CheckLabel(label, classes));
  return static_cast<int32_t>(label);
}

std::string TopOf(absl::string_view path) { return std::string(path.substr(0, path.find('/'))); }

bool IsSplitName(absl::string_view name) { return name == kTrainName || name == "val" || name == "test"; }

// A member by the path from the folder that holds splits or classes.
struct PlacedMember {
  absl::string_view path;
  const TarMember* member;
  // "": all lie in the archive itself.
  bool LiesIn(const std::string& folder) const { return folder.empty() || TopOf(path) == folder; }
  absl::string_view FolderAt(size_t depth) const {  // "": it does not lie so deep
    absl::string_view rest = path;
    for (;; --depth) {
      const size_t slash = rest.find('/');
      if (slash == absl::string_view::npos) return "";
      if (depth == 0) return rest.substr(0, slash);
      rest.remove_prefix(slash + 1);
    }
  }
};

std::vector<PlacedMember> ImagesOf(const TarIndex& index) {
  std::vector<PlacedMember> images;
  const HiddenMembers hidden(index);
  for (const TarMember& member : index.members) {
    if (HasImageEnding(member.name) && !hidden.Has(member)) images.push_back({PlainName(member.name), &member});
  }
  return images;
}

// An archive that was added to may have a path again: tar unpacks the last of them over those before.
absl::Status CheckEachOnce(const std::vector<PlacedMember>& images) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const PlacedMember& image : images) {
    if (!seen.insert(image.path).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: expected a path once, found it twice; unpack and pack the images anew", image.member->name));
    }
  }
  return absl::OkStatus();
}

// Takes off folders that all images lie in, while they are no split and classes stay below.
void TakeOffTops(std::vector<PlacedMember>& images) {
  while (!images.empty()) {
    const std::string top = TopOf(images[0].path);
    const bool all = std::all_of(images.begin(), images.end(), [&top](const PlacedMember& image) {
      return TopOf(image.path) == top && !image.FolderAt(1).empty();
    });
    if (!all || IsSplitName(top)) return;
    for (PlacedMember& image : images) image.path.remove_prefix(top.size() + 1);
  }
}

// Which of the folders in the archive a split is; "": the archive itself.
absl::StatusOr<std::string> SplitFolderOf(const std::set<std::string>& tops, SplitOf split) {
  const absl::string_view test =
      TestNameAmong([&tops](absl::string_view name) { return tops.count(std::string(name)) > 0; });
  const std::string train(tops.count(std::string(kTrainName)) > 0 ? kTrainName : "");
  if (split == SplitOf::kTrain && (!train.empty() || test.empty())) return train;
  if (split == SplitOf::kTest && !test.empty()) return std::string(test);
  return NoSplit(split == SplitOf::kTrain
                     ? "expected training images in train/, found test images alone"
                     : "expected test images in val/, valid/, validation/ or test/, found training images alone");
}

// The folders of classes in a folder of the archive, sorted; "": of the archive itself.
absl::StatusOr<std::vector<std::string>> ClassesIn(const std::vector<PlacedMember>& images, const std::string& folder,
                                                   size_t depth) {
  std::set<std::string> classes;
  for (const PlacedMember& image : images) {
    if (!image.LiesIn(folder)) continue;
    if (image.FolderAt(depth).empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: expected an image with a member .cls, or in the folder of its class, found neither", image.member->name));
    }
    classes.insert(std::string(image.FolderAt(depth)));
  }
  return std::vector<std::string>(classes.begin(), classes.end());
}

void AddNote(std::string note, TarSamples& samples) {
  if (!note.empty()) samples.notes.push_back(std::move(note));
}

void NoteMissing(const std::vector<bool>& has_images, TarSamples& samples) {
  std::vector<std::string> missing;
  for (size_t label = 0; label < has_images.size(); ++label) {
    if (!has_images[label]) missing.push_back(samples.class_names[label]);
  }
  AddNote(NoteOfMissing(std::move(missing), has_images.size()), samples);
}

// Adds the images in a folder, of the classes that `samples` has, and notes the classes of which there is none.
absl::Status AddSamples(const std::vector<PlacedMember>& images, const std::string& folder, size_t depth,
                        TarSamples& samples) {
  absl::flat_hash_map<absl::string_view, int32_t> labels;
  for (const std::string& name : samples.class_names) labels.emplace(name, static_cast<int32_t>(labels.size()));
  std::vector<bool> has_images(samples.class_names.size());
  for (const PlacedMember& image : images) {
    if (!image.LiesIn(folder)) continue;
    const auto label = labels.find(image.FolderAt(depth));
    if (label == labels.end()) {
      return absl::InvalidArgumentError(absl::StrFormat("%s: expected a class of the training images, found \"%s\"",
                                                        image.member->name, image.FolderAt(depth)));
    }
    has_images[label->second] = true;
    samples.samples.push_back({image.member->name, image.member->offset, image.member->size, label->second});
  }
  NoteMissing(has_images, samples);
  return absl::OkStatus();
}

// Notes the members of class folders that are no images. `images` are not empty, and have the same tops taken off.
void NoteLeftOut(const TarIndex& index, const std::vector<PlacedMember>& images, const std::string& folder, size_t depth,
                 TarSamples& samples) {
  const HiddenMembers hidden(index);
  const absl::string_view first = PlainName(images[0].member->name);
  const absl::string_view top = first.substr(0, first.size() - images[0].path.size());
  int64_t count = 0;
  absl::string_view one_of_them;
  for (const TarMember& member : index.members) {
    absl::string_view path = PlainName(member.name);
    if (HasImageEnding(path) || hidden.Has(member) || !absl::ConsumePrefix(&path, top)) continue;
    const PlacedMember placed{path, &member};
    if (!placed.LiesIn(folder) || placed.FolderAt(depth).empty()) continue;
    if (count++ == 0) one_of_them = member.name;
  }
  AddNote(NoteOfLeftOut(count, one_of_them), samples);
}

}  // namespace

bool HasClassMember(const TarIndex& index) {
  const HiddenMembers hidden(index);
  return std::any_of(index.members.begin(), index.members.end(), [&](const TarMember& member) {
    return KeyOf(PlainName(member.name)).ending == kClassEnding && !hidden.Has(member);
  });
}

absl::StatusOr<TarSamples> SamplesByKey(const ByteSource& file, const TarIndex& index, int64_t classes) {
  ASSIGN_OR_RETURN(std::vector<KeyedMembers> groups, GroupByKey(index));
  TarSamples out;
  for (const KeyedMembers& group : groups) {
    if (group.image == nullptr)
      return WrongKey(group.key, "expected an image (.jpg, .jpeg or .png) with its .cls, found none");
    if (group.label == nullptr) return WrongKey(group.key, "expected its class in a member .cls, found none");
    absl::StatusOr<int32_t> label = ReadLabel(file, *group.label, classes);
    if (!label.ok()) {
      return base::WithContext(label.status(), group.label->name);
    }
    out.samples.push_back({std::string(group.key), group.image->offset, group.image->size, *label});
  }
  return out;
}

absl::StatusOr<TarSamples> SamplesByFolder(const TarIndex& index, SplitOf split,
                                           const std::vector<std::string>& class_names) {
  std::vector<PlacedMember> images = ImagesOf(index);
  if (images.empty()) return absl::InvalidArgumentError("expected images (.jpg, .jpeg or .png), found none");
  RETURN_IF_ERROR(CheckEachOnce(images));
  TakeOffTops(images);
  std::set<std::string> tops;
  for (const PlacedMember& image : images) tops.insert(TopOf(image.path));
  ASSIGN_OR_RETURN(const std::string folder, SplitFolderOf(tops, split));
  const size_t depth = folder.empty() ? 0 : 1;
  const bool has_training = folder.empty() || tops.count(std::string(kTrainName)) > 0;
  TarSamples out;
  ASSIGN_OR_RETURN(out.class_names, ClassesIn(images, has_training && depth > 0 ? std::string(kTrainName) : folder, depth));
  if (!has_training && HaveAll(class_names, out.class_names)) {
    out.class_names = class_names;
  } else if (!has_training) {
    out.notes.push_back("its own folders are the classes: there is no train/ in it");
  }
  RETURN_IF_ERROR(AddSamples(images, folder, depth, out));
  NoteLeftOut(index, images, folder, depth, out);
  return out;
}

}  // namespace colonnade::data
