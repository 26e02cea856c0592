#include "data/jpeg_indices.h"

#include <optional>
#include <utility>

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
  const absl::MutexLock lock(&mutex_);
  return kept_;
}

bool JpegIndices::IsToBeMade(int64_t sample, std::shared_ptr<const JpegIndex>& index) {
  const absl::MutexLock lock(&mutex_);
  if (const auto known = indices_.find(sample); known != indices_.end()) {
    index = known->second;
    return false;
  }
  const bool is_second = met_[sample];
  met_[sample] = true;
  return is_second && !is_full_;
}

void JpegIndices::Keep(int64_t sample, const std::shared_ptr<const JpegIndex>& index) {
  constexpr int64_t kBytesOfAPlace = 64;  // in the map
  const int64_t bytes = kBytesOfAPlace + (index == nullptr ? 0 : index->bytes());
  const absl::MutexLock lock(&mutex_);
  is_full_ = is_full_ || kept_.bytes + bytes > most_bytes_;
  if (is_full_ || !indices_.emplace(sample, index).second) return;
  kept_.bytes += bytes;
  kept_.indices += index != nullptr;
}

}  // namespace colonnade::data
