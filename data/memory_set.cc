#include "data/memory_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace colonnade::data {
namespace {

// [C, plane] to [plane, C] by way of `room`.
void InterleaveChannels(int64_t channels, int64_t plane, uint8_t* pixels, std::vector<uint8_t>& room) {
  room.assign(pixels, pixels + channels * plane);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < plane; ++i) pixels[i * channels + c] = room[c * plane + i];
  }
}

}  // namespace

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
