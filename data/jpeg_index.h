// Where the blocks of a JPEG lie, so that a part of it can be decoded without what stands before and beside it. Internal to
// data/.
//
// A scan is Huffman codes of different lengths, one behind the other, and the first value of a block (its DC) is coded as
// the difference from that of the block before, the DC predictor. So only reading all codes before an MCU (the blocks of all
// components that belong together: 16 x 16 pixels where chroma is halved both ways) tells where it begins and how bright it
// is. An index is the record of one such reading: in each row of MCUs, at every third of them, the place of the next bit and
// the DC predictors, in 8 bytes; 4 % of a file of 90 kB. With it the MCUs of a part are cut out as a JPEG of their own: the
// codes are copied, but the DCs of each row's first MCU are coded anew. Pixels of the cut equal the image's, except the
// outermost ones on a side where the image continues, because chroma is interpolated across that edge.
#ifndef COLONNADE_DATA_JPEG_INDEX_H_
#define COLONNADE_DATA_JPEG_INDEX_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/part.h"

namespace colonnade::data {

class JpegBitWriter;
struct JpegLayout;

using JpegDcs = std::array<int16_t, 3>;  // of each component, the DC of its last block

class JpegIndex {
 public:
  // Makes the index of a file; nothing of one whose scan is damaged, has more than 32 MB, or is none that ReadJpegLayout
  // knows.
  static std::optional<JpegIndex> Of(absl::string_view file);

  struct Cut {
    std::string jpeg;
    int64_t top = 0, left = 0;  // of its first pixel, in the image
  };
  // Returns the MCUs that cover `part`, which is in pixels of the full image, as far as it lies in it. Nothing where that
  // saves too little to be worth it, where the file's Huffman table has no code for a difference that is needed, and of
  // another file than that of the index. REQUIRES: some of the part lies in the image.
  std::optional<Cut> CutOut(absl::string_view file, const Part& part) const;

  int64_t bytes() const { return static_cast<int64_t>(sizeof(*this) + entries_.capacity() * sizeof(Entry)); }

 private:
  static constexpr int64_t kStride = 3;  // columns of MCUs

  // Where an MCU begins, and the DC predictors there.
  class Entry {
   public:
    Entry(int64_t place, const JpegDcs& dcs);
    int64_t place() const { return static_cast<int64_t>(packed_ >> kPlaceShift); }
    JpegDcs dcs() const;

   private:
    static constexpr int kDcBits = 12, kPlaceShift = std::tuple_size_v<JpegDcs> * kDcBits;
    uint64_t packed_;
  };
  struct Mcus {
    int64_t top = 0, left = 0, bottom = 0, right = 0;
  };

  JpegIndex() = default;
  bool IsOf(absl::string_view file, const JpegLayout& layout) const;
  bool ReadScan(const JpegLayout& layout);
  const Entry& Before(int64_t row, int64_t column) const;
  Mcus McusOf(const JpegLayout& layout, const Part& part) const;
  bool IsWorthIt(const Mcus& mcus) const;
  bool CopyRow(const JpegLayout& layout, const Mcus& mcus, int64_t row, JpegDcs& dcs, JpegBitWriter& writer) const;

  uint64_t digest_ = 0;  // of the file
  int64_t scan_bytes_ = 0;
  int64_t rows_ = 0, columns_ = 0;  // of MCUs
  std::vector<Entry> entries_;      // row by row; at last that behind the last MCU
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_INDEX_H_
