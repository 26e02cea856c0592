#include "data/jpeg_indices.h"

#include <optional>
#include <utility>

#include "data/jpeg_index.h"

namespace colonnade::data {

std::shared_ptr<const JpegIndex> JpegIndices::Of(int64_t sample, absl::string_view file, int64_t pixels) {
  if (most_bytes_ == 0 || pixels < kLeastPixels) return nullptr;
  std::shared_ptr<const JpegIndex> index;
  if (!IsToBeMade(sample, index)) return index;
  if (std::optional<JpegIndex> made = JpegIndex::Of(file)) index = std::make_shared<const JpegIndex>(*std::move(made));
  Keep(sample, index);
  return index;
}

JpegIndices::Kept JpegIndices::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

bool JpegIndices::IsToBeMade(int64_t sample, std::shared_ptr<const JpegIndex>& index) {
  const std::lock_guard lock(mutex_);
  if (const auto known = indices_.find(sample); known != indices_.end()) {
    index = known->second;
    return false;
  }
  const bool is_second = met_[sample];
  met_[sample] = true;
  return is_second && !is_full_;
}

void JpegIndices::Keep(int64_t sample, std::shared_ptr<const JpegIndex> index) {
  constexpr int64_t kBytesOfAPlace = 64;  // in the map
  int64_t bytes = kBytesOfAPlace + (index == nullptr ? 0 : index->bytes());
  const std::lock_guard lock(mutex_);
  const int64_t left = most_bytes_ - kept_.bytes;
  if (bytes > left) {
    is_full_ = is_full_ || left < most_bytes_ / 16;
    if (is_full_) return;
    index = nullptr;  // so that it is not made again
    bytes = kBytesOfAPlace;
  }
  const bool has_index = index != nullptr;
  if (!indices_.emplace(sample, std::move(index)).second) return;
  kept_.bytes += bytes;
  kept_.indices += has_index;
}

void JpegIndices::CountDecoded() {
  const std::lock_guard lock(mutex_);
  ++kept_.decoded;
}

}  // namespace colonnade::data
