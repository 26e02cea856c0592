// Separable resampling of bytes in fixed point: the same bytes come out on every machine. Internal to data/.
#ifndef COLONNADE_DATA_RESAMPLE_H_
#define COLONNADE_DATA_RESAMPLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "data/image.h"

namespace colonnade::data {

// Says, along one axis, of which pixels each pixel that comes out is a weighted sum.
struct Axis {
  int64_t taps = 1;             // pixels in each sum; some may weigh nothing
  std::vector<int64_t> first;   // the first pixel of each sum
  std::vector<int16_t> weight;  // `taps` for each sum, in parts of kWhole; if `taps` is odd, one 0 more, to go in pairs

  static constexpr int kBits = 14, kWhole = 1 << kBits;
  // Between the pass over rows and that over columns, values have kBetweenBits fractional bits: with 8 bits before the point
  // they fit into 16 bits with a sign. Half of what is shifted out is added first, to round.
  static constexpr int kBetweenBits = 7, kToBetween = kBits - kBetweenBits, kToByte = kBits + kBetweenBits;
  static constexpr int32_t kHalfBetween = 1 << (kToBetween - 1), kHalfByte = 1 << (kToByte - 1);

  int64_t stride() const { return taps + taps % 2; }  // of `weight`
};

// Makes the axis that resamples the `length` pixels from `start` on, of an image of `extent` pixels, to `count` pixels: by
// area where they shrink, bilinear where they grow. Outside of the image the pixel at its edge counts. The weights of each
// sum add up to kWhole.
Axis MakeAxis(double start, double length, int64_t extent, int64_t count);
Axis Mirrored(const Axis& axis);

// Writes to `out` rows.first.size() x columns.first.size() pixels with the image's channels, 1 or 3.
void Resample(const Image& image, const Axis& rows, const Axis& columns, absl::Span<uint8_t> out);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_RESAMPLE_H_
