// The sums of resample.cc for as many values as fill vectors of AVX2, where the machine has it: the same integers, so the
// same bytes. Internal to data/resample.cc.
#ifndef COLONNADE_DATA_RESAMPLE_AVX2_H_
#define COLONNADE_DATA_RESAMPLE_AVX2_H_

#include <cstdint>
#include <vector>

#include "data/resample.h"

namespace colonnade::data {

// Sums `taps` rows of bytes. Returns how many of the `count` values are done, the first ones; 0 without AVX2.
int64_t SumRowsByVectors(const uint8_t* pixels, int64_t stride, const int16_t* weight, int64_t taps, int64_t count,
                         int16_t* out);

// Sums the columns of rows of three channels.
class ColumnVectors {
 public:
  static constexpr int64_t kReadBehind = 8;  // values behind a row, which weigh nothing

  explicit ColumnVectors(const Axis& columns);

  // Returns how many pixels of the row are done, the first ones; 0 without AVX2.
  size_t Sum(const int16_t* row, uint8_t* out) const;

 private:
  int64_t pairs_ = 0;
  std::vector<int32_t> offset_;  // of each pixel's first value
  std::vector<int32_t> weight_;  // vectors of eight, in the order in which Sum takes them
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_RESAMPLE_AVX2_H_
