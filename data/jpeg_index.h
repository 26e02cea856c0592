// Where the blocks of a JPEG lie, so that a part of it can be decoded without what stands before and beside it.
//
// In a scan codes of different lengths follow each other, and the first value of a block (its DC) is told as the difference
// from that of its component's block before. So only reading all codes before an MCU (the blocks of all components that
// belong together: 16 x 16 pixels where chroma is halved both ways) tells where it begins and how bright it is. An index is
// the record of one such reading: in each row of MCUs, at every third of them, the place of the next bit and the DCs before
// it, in 8 bytes; 4 % of a file of 90 kB. By it the MCUs of a part are cut out as a JPEG of their own, whose codes are those
// of the file but for the DCs of each row's first MCU. So are its pixels, but for the outermost ones on a side where the
// image goes on: their chroma is interpolated from beyond.
#ifndef COLONNADE_DATA_JPEG_INDEX_H_
#define COLONNADE_DATA_JPEG_INDEX_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/jpeg_layout.h"
#include "data/part.h"

namespace colonnade::data {

class JpegIndex {
 public:
  // Nothing of a file whose scan is damaged, has more than 32 MB, or is none that ReadJpegLayout knows.
  static std::optional<JpegIndex> Of(absl::string_view file);

  struct Cut {
    std::string jpeg;
    int64_t top = 0, left = 0;  // of its first pixel, in the image
  };
  // The MCUs that cover `part`, in pixels of the full image, as far as it lies in it. Nothing where that saves too little to
  // be worth it, where the codes of the file have none for a difference that is needed, and for another file than that of
  // the index. REQUIRES: some of the part lies in the image.
  std::optional<Cut> CutOut(absl::string_view file, const Part& part) const;

  int64_t bytes() const { return static_cast<int64_t>(sizeof(*this) + entries_.capacity() * sizeof(Entry)); }

 private:
  static constexpr int64_t kStride = 3;  // columns of MCUs

  // What is known before an MCU is read.
  class Entry {
   public:
    Entry(int64_t place, const JpegDcs& dcs);
    int64_t place() const { return static_cast<int64_t>(packed_ >> kPlaceShift); }
    JpegDcs dcs() const;

   private:
    static constexpr int kDcBits = 12, kPlaceShift = kMostComponents * kDcBits;
    uint64_t packed_;
  };
  struct Mcus {
    int64_t top = 0, left = 0, bottom = 0, right = 0;
  };

  JpegIndex() = default;
  bool ReadScan(const JpegLayout& layout);
  const Entry& Before(int64_t row, int64_t column) const;
  Mcus McusOf(const JpegLayout& layout, const Part& part) const;
  bool IsWorthIt(const Mcus& mcus) const;
  bool CopyRow(const JpegLayout& layout, const Mcus& mcus, int64_t row, JpegDcs& dcs, JpegBitWriter& writer) const;

  uint64_t digest_ = 0;         // of the file
  int64_t columns_ = 0;         // of MCUs
  std::vector<Entry> entries_;  // row by row; at last that behind the last MCU
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_JPEG_INDEX_H_
