// The indices of a set's JPEGs (jpeg_index.h), made while samples are read and kept in memory, up to a number of bytes.
//
// Making an index costs about what three decodings with it save. So it is made when a sample is met for the second time:
// who reads a set twice mostly reads it often, and who reads it once loses nothing. Thread rule: any thread may call
// anything.
#ifndef COLONNADE_DATA_JPEG_INDICES_H_
#define COLONNADE_DATA_JPEG_INDICES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

class JpegIndex;

class JpegIndices {
 public:
  // Images of fewer pixels are decoded so fast that an index would pay for itself in the sixth reading at best.
  static constexpr int64_t kLeastPixels = 150'000;

  // Of a set of `samples`. A sample whose index does not fit into what is left of `most_bytes` has none; once less than a
  // sixteenth is left then, no more are made.
  JpegIndices(int64_t samples, int64_t most_bytes) : most_bytes_(most_bytes), met_(samples, false) {}

  // Of `sample`, which is `file`, an image of so many pixels. Null where there is none.
  std::shared_ptr<const JpegIndex> Of(int64_t sample, absl::string_view file, int64_t pixels);

  void CountDecoded();  // a part, with an index

  struct Kept {
    int64_t indices = 0, bytes = 0;
    int64_t decoded = 0;  // parts, with them
  };
  Kept kept() const;

 private:
  // Whether `sample` is met for the second time, so that its index is to be made; of one that was, `index` is what was
  // found.
  bool IsToBeMade(int64_t sample, std::shared_ptr<const JpegIndex>& index);
  void Keep(int64_t sample, std::shared_ptr<const JpegIndex> index);

  const int64_t most_bytes_;
  mutable std::mutex mutex_;  // of all below
  std::vector<bool> met_;
  // Null of files that have no index, or too large a one.
  absl::flat_hash_map<int64_t, std::shared_ptr<const JpegIndex>> indices_;
  Kept kept_;
  bool is_full_ = false;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_INDICES_H_
