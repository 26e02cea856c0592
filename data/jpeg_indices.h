// The indices of a set's JPEGs (jpeg_index.h), made while samples are read and kept in memory, up to a number of bytes.
//
// Making an index costs about what three decodings with it save. So it is made when a sample is met for the second time: a
// set that is read twice is mostly read often, and reading it once costs nothing. Thread rule: any thread may call anything.
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

  // Keeps indices of a set of `samples`, in at most `most_bytes`. A sample has none if its index does not fit into the bytes
  // that are left; if less than a sixteenth is left then, no more are made.
  JpegIndices(int64_t samples, int64_t most_bytes) : most_bytes_(most_bytes), met_(samples, false) {}

  // Returns the index of `sample`, whose `file` is an image of so many pixels, and makes it when it is first due. Null where
  // there is none.
  std::shared_ptr<const JpegIndex> Of(int64_t sample, absl::string_view file, int64_t pixels);

  void CountDecoded();  // counts a part that was decoded with an index

  struct Kept {
    int64_t indices = 0, bytes = 0;
    int64_t decoded = 0;  // parts that were decoded with an index
  };
  Kept kept() const;

 private:
  // Whether the index of `sample` is to be made now: it is met for the second time, and there is room. Where one was made
  // before, sets `index` to what was kept.
  bool IsToBeMade(int64_t sample, std::shared_ptr<const JpegIndex>& index);
  void Keep(int64_t sample, std::shared_ptr<const JpegIndex> index);

  const int64_t most_bytes_;
  mutable std::mutex mutex_;  // of all below
  std::vector<bool> met_;
  // The indices by sample; null for files that have none, or too large a one.
  absl::flat_hash_map<int64_t, std::shared_ptr<const JpegIndex>> indices_;
  Kept kept_;
  bool is_full_ = false;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_INDICES_H_
