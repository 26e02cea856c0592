#include "data/resample.h"

#include <algorithm>
#include <cmath>

namespace colonnade::data {
namespace {

// Between the passes values have so many bits behind the point: with 8 before it they fit 16 bits with a sign.
constexpr int kBetweenBits = 7;
constexpr int kToBetween = Axis::kBits - kBetweenBits, kToByte = Axis::kBits + kBetweenBits;

struct Weights {
  int64_t first = 0;
  std::vector<double> of;
};

Weights ByArea(double begin, double end) {
  Weights weights{.first = static_cast<int64_t>(std::floor(begin))};
  for (int64_t i = weights.first; i < std::ceil(end); ++i) {
    const double overlap =
        std::min<double>(end, static_cast<double>(i + 1)) - std::max<double>(begin, static_cast<double>(i));
    weights.of.push_back(overlap / (end - begin));
  }
  return weights;
}

Weights Bilinear(double centre) {
  const double before = std::floor(centre - 0.5), behind = centre - 0.5 - before;
  return {static_cast<int64_t>(before), {1 - behind, behind}};
}

// What lies outside goes to the pixel at the edge, or nowhere.
Weights Inside(const Weights& all, int64_t extent, Outside outside) {
  const int64_t end = all.first + static_cast<int64_t>(all.of.size());
  const int64_t first = std::clamp<int64_t>(all.first, 0, extent - 1),
                last = std::clamp<int64_t>(end - 1, first, extent - 1);
  Weights inside{first, std::vector<double>(static_cast<size_t>(last - first + 1))};
  for (int64_t i = all.first; i < end; ++i) {
    const int64_t at = std::clamp(i, first, last);
    if (at == i || outside == Outside::kEdge)
      inside.of[static_cast<size_t>(at - first)] += all.of[static_cast<size_t>(i - all.first)];
  }
  return inside;
}

// Rounded so that their sum is the rounded sum, at its `offset` of `taps` places.
void PutRounded(const std::vector<double>& weights, int64_t offset, int16_t* to) {
  double sum = 0;
  long before = 0;  // NOLINT: what lround gives
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const long so_far = std::lround(sum * Axis::kWhole);  // NOLINT
    to[static_cast<size_t>(offset) + i] = static_cast<int16_t>(so_far - before);
    before = so_far;
  }
}

// n values of a row between the passes, from K rows of bytes.
template <int K>
void SumRows(const uint8_t* rows, int64_t stride, const int16_t* weight, int64_t n, int16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    int32_t sum = 1 << (kToBetween - 1);
    for (int k = 0; k < K; ++k) sum += weight[k] * static_cast<int16_t>(rows[k * stride + i]);
    out[i] = static_cast<int16_t>(sum >> kToBetween);
  }
}

void SumManyRows(const uint8_t* rows, int64_t stride, const int16_t* weight, int64_t taps, int64_t n, int32_t* sums,
                 int16_t* out) {
  std::fill_n(sums, n, 1 << (kToBetween - 1));
  for (int64_t k = 0; k < taps; ++k) {
    for (int64_t i = 0; i < n; ++i) sums[i] += weight[k] * static_cast<int16_t>(rows[k * stride + i]);
  }
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int16_t>(sums[i] >> kToBetween);
}

// A row of bytes from a row between the passes; K taps, or any number where K is 0.
template <int C, int K>
void SumColumns(const int16_t* row, const Axis& columns, uint8_t* out) {
  const int64_t taps = K == 0 ? columns.taps : K;
  const int16_t* weight = columns.weight.data();
  for (int64_t first : columns.first) {
    const int16_t* from = row + first * C;
    int32_t sums[C];
    for (int c = 0; c < C; ++c) sums[c] = 1 << (kToByte - 1);
    for (int64_t k = 0; k < taps; ++k) {
      for (int c = 0; c < C; ++c) sums[c] += weight[k] * from[k * C + c];
    }
    for (int c = 0; c < C; ++c) out[c] = static_cast<uint8_t>(sums[c] >> kToByte);
    weight += taps;
    out += C;
  }
}

template <int C>
void SumColumnsOf(const int16_t* row, const Axis& columns, uint8_t* out) {
  switch (columns.taps) {
    case 1:
      return SumColumns<C, 1>(row, columns, out);
    case 2:
      return SumColumns<C, 2>(row, columns, out);
    case 3:
      return SumColumns<C, 3>(row, columns, out);
    default:
      return SumColumns<C, 0>(row, columns, out);
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
        row_(static_cast<size_t>(stride_)),
        sums_(static_cast<size_t>(rows.taps > 3 ? count_ : 0)) {}

  // Valid until it is called again; columns that do not count are not set.
  const int16_t* Row(size_t y) {
    const uint8_t* from = pixels_ + rows_.first[y] * stride_;
    const int16_t* weight = rows_.weight.data() + static_cast<int64_t>(y) * rows_.taps;
    int16_t* to = row_.data() + begin_;
    switch (rows_.taps) {
      case 1:
        SumRows<1>(from, stride_, weight, count_, to);
        break;
      case 2:
        SumRows<2>(from, stride_, weight, count_, to);
        break;
      case 3:
        SumRows<3>(from, stride_, weight, count_, to);
        break;
      default:
        SumManyRows(from, stride_, weight, rows_.taps, count_, sums_.data(), to);
    }
    return row_.data();
  }

 private:
  const Axis& rows_;
  const int64_t stride_, begin_, count_;
  const uint8_t* pixels_;
  std::vector<int16_t> row_;
  std::vector<int32_t> sums_;
};

}  // namespace

Axis MakeAxis(double start, double length, int64_t extent, int64_t count, Outside outside) {
  const double step = length / static_cast<double>(count);
  std::vector<Weights> all;
  Axis axis;
  for (int64_t i = 0; i < count; ++i) {
    const double begin = start + static_cast<double>(i) * step;
    all.push_back(Inside(step < 1 ? Bilinear(begin + step / 2) : ByArea(begin, begin + step), extent, outside));
    axis.taps = std::max(axis.taps, static_cast<int64_t>(all.back().of.size()));
  }
  axis.weight.resize(static_cast<size_t>(count * axis.taps));
  for (int64_t i = 0; i < count; ++i) {
    const Weights& weights = all[static_cast<size_t>(i)];
    axis.first.push_back(std::min(weights.first, extent - axis.taps));
    PutRounded(weights.of, weights.first - axis.first.back(), axis.weight.data() + i * axis.taps);
  }
  return axis;
}

Axis Mirrored(const Axis& axis) {
  Axis mirrored{.taps = axis.taps, .first = {axis.first.rbegin(), axis.first.rend()}, .weight = {}};
  for (size_t i = axis.first.size(); i-- > 0;) {
    const auto from = axis.weight.begin() + static_cast<int64_t>(i) * axis.taps;
    mirrored.weight.insert(mirrored.weight.end(), from, from + axis.taps);
  }
  return mirrored;
}

void Resample(const Image& image, const Axis& rows, const Axis& columns, absl::Span<uint8_t> out) {
  RowSums sums(image, rows, columns);
  const size_t out_stride = columns.first.size() * static_cast<size_t>(image.channels);
  for (size_t y = 0; y < rows.first.size(); ++y) {
    uint8_t* to = out.data() + y * out_stride;
    if (image.channels == 3) {
      SumColumnsOf<3>(sums.Row(y), columns, to);
    } else {
      SumColumnsOf<1>(sums.Row(y), columns, to);
    }
  }
}

}  // namespace colonnade::data
