#include "data/memory_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/class_names.h"

namespace colonnade::data {
namespace {

// [C, plane] to [plane, C] by way of `room`.
void InterleaveChannels(int64_t channels, int64_t plane, uint8_t* pixels, std::vector<uint8_t>& room) {
  room.assign(pixels, pixels + channels * plane);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) pixels[i * channels + c] = room[c * plane + i];
  }
}

// Multiplies no extents, whose product may overflow. REQUIRES: CheckImageShape.
bool HasAnImageForEachLabel(const ImageSet& set) {
  if (set.labels.empty()) return set.pixels.empty();
  auto left = static_cast<int64_t>(set.pixels.size());
  for (int64_t count : {set.size(), set.sample_shape[0], set.sample_shape[1], set.sample_shape[2]}) {
    if (left % count != 0) return false;
    left /= count;
  }
  return left == 1;
}

absl::Status CheckImages(const ImageSet& set) {
  RETURN_IF_ERROR(CheckImageShape(set.sample_shape));
  if (HasAnImageForEachLabel(set)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("expected %s %s, one for each label, found %s",
                                                    base::Counted(set.size(), "image"), program::ToString(set.sample_shape),
                                                    base::Counted(set.pixels.size(), "pixel")));
}

absl::Status CheckLabels(const std::vector<int32_t>& labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const absl::Status status = CheckLabel(labels[i], classes);
    if (!status.ok()) return base::WithContext(status, absl::StrCat("sample ", i));
  }
  return absl::OkStatus();
}

// Checks `set` and fills in `names`.
absl::Status CheckSet(const ImageSet& set, std::vector<std::string>& names) {
  RETURN_IF_ERROR(CheckImages(set));
  const auto named = static_cast<int64_t>(names.size());
  if (set.classes < 0) {
    return absl::InvalidArgumentError(absl::StrFormat("classes: expected 0 or more, found %d", set.classes));
  }
  if (named > 0 && set.classes > 0 && named != set.classes) {
    return absl::InvalidArgumentError(absl::StrFormat("expected a name for each class or none, found %s of %s",
                                                      base::Counted(named, "name"), base::Counted(set.classes, "class")));
  }
  RETURN_IF_ERROR(CheckLabels(set.labels, std::max(named, set.classes)));
  ASSIGN_OR_RETURN(names, NameClasses(std::move(names), set.labels, set.classes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemorySet>> MemorySet::Create(ImageSet set, std::vector<std::string> class_names,
                                                             std::vector<std::string> notes) {
  RETURN_IF_ERROR(base::WithContext(CheckSet(set, class_names), set.name.empty() ? "images" : set.name));
  return std::unique_ptr<MemorySet>(new MemorySet(std::move(set), std::move(class_names), std::move(notes)));
}

MemorySet::MemorySet(ImageSet set, std::vector<std::string> class_names, std::vector<std::string> notes)
    : set_(std::move(set)), class_names_(std::move(class_names)), notes_(std::move(notes)) {
  const int64_t channels = set_.sample_shape[0], plane = set_.sample_shape[1] * set_.sample_shape[2];
  if (channels == 1) return;
  std::vector<uint8_t> room;
  for (int64_t i = 0; i < size(); ++i) InterleaveChannels(channels, plane, set_.pixels.data() + i * channels * plane, room);
}

std::string MemorySet::sample_name(int64_t sample) const { return absl::StrCat(name(), ": sample ", sample); }

absl::StatusOr<StoredImage> MemorySet::Read(int64_t sample, std::string& /*room*/) const {
  const program::Shape& shape = set_.sample_shape;
  const size_t bytes = static_cast<size_t>(program::ElementCount(shape));
  const char* pixels = reinterpret_cast<const char*>(set_.pixels.data()) + sample * static_cast<int64_t>(bytes);
  return StoredImage{.height = shape[1], .width = shape[2], .channels = shape[0], .bytes = absl::string_view(pixels, bytes)};
}

}  // namespace colonnade::data
