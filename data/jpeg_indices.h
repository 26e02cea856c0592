// The indices of a set's JPEGs, made while they are read and kept in memory, as many as it is to take.
//
// Reading all codes of a file costs as much as three decodings by its index save. So an index is made when a sample is met
// for the second time: who reads a set twice mostly reads it often, and who reads it once loses nothing. Thread rule: any
// thread may call anything.
#ifndef COLONNADE_DATA_JPEG_INDICES_H_
#define COLONNADE_DATA_JPEG_INDICES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "data/jpeg_index.h"

namespace colonnade::data {

class JpegIndices {
 public:
  // Images of fewer pixels are decoded so fast that an index would pay for itself in the sixth reading at best.
  static constexpr int64_t kLeastPixels = 150'000;

  // Of a set of `samples`; their indices take about `most_bytes`.
  JpegIndices(int64_t samples, int64_t most_bytes) : most_bytes_(most_bytes), met_(samples, false) {}

  // Of `sample`, which is `file`, an image of so many pixels. Null where there is none.
  std::shared_ptr<const JpegIndex> Of(int64_t sample, absl::string_view file, int64_t pixels) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Kept {
    int64_t indices = 0, bytes = 0;
  };
  Kept kept() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Whether `sample` has been met before and its file is not known; if it is, `index` is what is known.
  bool IsToBeMade(int64_t sample, std::shared_ptr<const JpegIndex>& index) ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(int64_t sample, const std::shared_ptr<const JpegIndex>& index) ABSL_LOCKS_EXCLUDED(mutex_);

  const int64_t most_bytes_;
  mutable absl::Mutex mutex_;
  std::vector<bool> met_ ABSL_GUARDED_BY(mutex_);
  // Null of files that have no index.
  absl::flat_hash_map<int64_t, std::shared_ptr<const JpegIndex>> indices_ ABSL_GUARDED_BY(mutex_);
  Kept kept_ ABSL_GUARDED_BY(mutex_);
  bool is_full_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_INDICES_H_
