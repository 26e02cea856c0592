#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/resample_avx2.h"

namespace colonnade::data {
namespace {

// The weights of the pixels from `first` on.
struct Weights {
  int64_t first = 0;
  std::vector<double> of;
};

void WeighByArea(double begin, double end, Weights& weights) {
  weights.first = static_cast<int64_t>(std::floor(begin));
  const int64_t behind = static_cast<int64_t>(std::ceil(end));
  weights.of.clear();
  for (int64_t i = weights.first; i < behind; ++i) {
    const double overlap =
        std::min<double>(end, static_cast<double>(i + 1)) - std::max<double>(begin, static_cast<double>(i));
    weights.of.push_back(overlap / (end - begin));
  }
}

void WeighBilinearly(double centre, Weights& weights) {
  const double before = std::floor(centre - 0.5), behind = centre - 0.5 - before;
  weights.first = static_cast<int64_t>(before);
  weights.of = {1 - behind, behind};
}

// What lies outside goes to the pixel at the edge.
void Keep(const Weights& all, int64_t extent, Weights& inside) {
  const int64_t end = all.first + static_cast<int64_t>(all.of.size());
  const int64_t first = std::clamp<int64_t>(all.first, 0, extent - 1),
                last = std::clamp<int64_t>(end - 1, first, extent - 1);
  inside.first = first;
  inside.of.assign(static_cast<size_t>(last - first + 1), 0);
  for (int64_t i = all.first; i < end; ++i) {
    inside.of[static_cast<size_t>(std::clamp(i, first, last) - first)] += all.of[static_cast<size_t>(i - all.first)];
  }
}

// Rounded so that their sum is the rounded sum.
void PutRounded(const std::vector<double>& weights, int16_t* to) {
  double sum = 0;
  int64_t before = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const int64_t so_far = static_cast<int64_t>(sum * Axis::kWhole + 0.5);
    to[i] = static_cast<int16_t>(so_far - before);
    before = so_far;
  }
}

// As many pixels as `step` can touch from any of the places that there are, `start` and steps behind it.
int64_t MostTouched(double start, double step) {
  if (step < 1) return 2;
  const bool are_whole = step == std::floor(step) && start == std::floor(start);
  return static_cast<int64_t>(std::ceil(step)) + (are_whole ? 0 : 1);
}

// A value between the passes, from a column of bytes.
int16_t SumOfColumn(const uint8_t* pixels, int64_t stride, const int16_t* weight, int64_t taps) {
  int32_t sum = Axis::kHalfBetween;
  for (int64_t k = 0; k < taps; ++k) sum += weight[k] * pixels[k * stride];
  return static_cast<int16_t>(sum >> Axis::kToBetween);
}

// A channel of a pixel, from values between the passes.
uint8_t SumOfRow(const int16_t* values, int64_t stride, const int16_t* weight, int64_t taps) {
  int32_t sum = Axis::kHalfByte;
  for (int64_t k = 0; k < taps; ++k) sum += weight[k] * values[k * stride];
  return static_cast<uint8_t>(sum >> Axis::kToByte);
}

// Values between the passes, from rows of bytes.
void SumRows(const uint8_t* pixels, int64_t stride, const int16_t* weight, int64_t taps, int64_t count, int16_t* out) {
  int64_t i = SumRowsByVectors(pixels, stride, weight, taps, count, out);
  for (; i < count; ++i) out[i] = SumOfColumn(pixels + i, stride, weight, taps);
}

// A row of bytes from pixel x on, from a row between the passes.
void SumColumns(const int16_t* row, const Axis& columns, size_t x, size_t channels, uint8_t* out) {
  const size_t stride = static_cast<size_t>(columns.stride());
  for (; x < columns.first.size(); ++x) {
    const int16_t* from = row + columns.first[x] * static_cast<int64_t>(channels);
    for (size_t c = 0; c < channels; ++c) {
      out[x * channels + c] = SumOfRow(from + c, static_cast<int64_t>(channels), &columns.weight[x * stride], columns.taps);
    }
  }
}

// The columns of an image that count, row by row.
class RowSums {
 public:
  RowSums(const Image& image, const Axis& rows, const Axis& columns)
      : rows_(rows),
        stride_(image.width * image.channels),
        begin_(*std::min_element(columns.first.begin(), columns.first.end()) * image.channels),
        count_((*std::max_element(columns.first.begin(), columns.first.end()) + columns.taps) * image.channels - begin_),
        pixels_(image.pixels.data() + begin_),
        row_(static_cast<size_t>(stride_ + ColumnVectors::kReadBehind)) {}

  // Valid until it is called again; columns that do not count are not set.
  const int16_t* Row(size_t y) {
    SumRows(pixels_ + rows_.first[y] * stride_, stride_, &rows_.weight[y * static_cast<size_t>(rows_.stride())], rows_.taps,
            count_, row_.data() + begin_);
    return row_.data();
  }

 private:
  const Axis& rows_;
  const int64_t stride_, begin_, count_;
  const uint8_t* pixels_;
  std::vector<int16_t> row_;
};

}  // namespace

Axis MakeAxis(double start, double length, int64_t extent, int64_t count) {
  const double step = length / static_cast<double>(count);
  Axis axis{.taps = std::min(MostTouched(start, step), extent), .first = {}, .weight = {}};
  axis.first.reserve(static_cast<size_t>(count));
  axis.weight.resize(static_cast<size_t>(count * axis.stride()));
  Weights all, inside;
  for (int64_t i = 0; i < count; ++i) {
    const double begin = start + static_cast<double>(i) * step;
    step < 1 ? WeighBilinearly(begin + step / 2, all) : WeighByArea(begin, begin + step, all);
    const bool is_inside = all.first >= 0 && all.first + std::ssize(all.of) <= extent;
    if (!is_inside) Keep(all, extent, inside);
    const Weights& kept = is_inside ? all : inside;
    axis.first.push_back(std::min(kept.first, extent - axis.taps));
    PutRounded(kept.of, axis.weight.data() + i * axis.stride() + kept.first - axis.first.back());
  }
  return axis;
}

Axis Mirrored(const Axis& axis) {
  Axis mirrored{.taps = axis.taps, .first = {axis.first.rbegin(), axis.first.rend()}, .weight = {}};
  mirrored.weight.reserve(axis.weight.size());
  for (size_t i = axis.first.size(); i-- > 0;) {
    const auto from = axis.weight.begin() + static_cast<int64_t>(i) * axis.stride();
    mirrored.weight.insert(mirrored.weight.end(), from, from + axis.stride());
  }
  return mirrored;
}

void Resample(const Image& image, const Axis& rows, const Axis& columns, absl::Span<uint8_t> out) {
  RowSums sums(image, rows, columns);
  std::optional<ColumnVectors> vectors;
  if (image.channels == 3) vectors.emplace(columns);
  const size_t channels = static_cast<size_t>(image.channels), out_stride = columns.first.size() * channels;
  for (size_t y = 0; y < rows.first.size(); ++y) {
    const int16_t* row = sums.Row(y);
    uint8_t* to = out.data() + y * out_stride;
    SumColumns(row, columns, vectors ? vectors->Sum(row, to) : 0, channels, to);
  }
}

}  // namespace colonnade::data
