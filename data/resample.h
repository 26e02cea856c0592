// Separable resampling of bytes in fixed point: the same bytes come out on every machine. Internal to data/.
#ifndef COLONNADE_DATA_RESAMPLE_H_
#define COLONNADE_DATA_RESAMPLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "data/image.h"

namespace colonnade::data {

// Of which pixels each pixel that comes out is the weighted sum, along one axis.
struct Axis {
  int64_t taps = 1;             // of each; some may weigh nothing
  std::vector<int64_t> first;   // the first pixel of each
  std::vector<int16_t> weight;  // `taps` of each, in parts of kWhole; a 0 more where that is odd, to go in pairs

  static constexpr int kBits = 14, kWhole = 1 << kBits;
  // Between the passes, of rows and then of columns, values have so many bits behind the point: with 8 before it they fit 16
  // bits with a sign. What is shifted out is rounded by half of it.
  static constexpr int kBetweenBits = 7, kToBetween = kBits - kBetweenBits, kToByte = kBits + kBetweenBits;
  static constexpr int32_t kHalfBetween = 1 << (kToBetween - 1), kHalfByte = 1 << (kToByte - 1);

  int64_t stride() const { return taps + taps % 2; }  // of `weight`
};

// `count` pixels out of the `length` that begin at `start`, of an image of `extent` pixels: by area where they shrink,
// bilinear where they grow. Outside of the image are the pixels at its edge. The weights of each add up to one whole.
Axis MakeAxis(double start, double length, int64_t extent, int64_t count);
Axis Mirrored(const Axis& axis);

// out: rows.first.size() x columns.first.size() pixels with the image's channels, 1 or 3.
void Resample(const Image& image, const Axis& rows, const Axis& columns, absl::Span<uint8_t> out);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_RESAMPLE_H_
