#include "data/sample_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "data/sample_order.h"
#include "program/philox.h"
#include "program/status_macros.h"

namespace colonnade::data {
namespace {

absl::Status CheckMoments(const char* name, const std::vector<double>& values, int64_t channels) {
  if (static_cast<int64_t>(values.size()) == channels || values.size() == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected one number or one for each of %d channels, found %d", name, channels, values.size()));
}

}  // namespace

absl::StatusOr<SampleStream> SampleStream::Create(ImageSet set, StreamOptions options) {
  const int64_t channels = set.sample_shape[0];
  if (options.mean.empty()) options.mean = set.mean;
  if (options.std.empty()) options.std = set.std;
  RETURN_IF_ERROR(CheckMoments("mean", options.mean, channels));
  RETURN_IF_ERROR(CheckMoments("std", options.std, channels));
  options.mean.resize(channels, options.mean[0]);
  options.std.resize(channels, options.std[0]);
  for (double s : options.std) {
    if (!(s > 0)) return absl::FailedPreconditionError(absl::StrFormat("std: expected numbers above 0, found %g", s));
  }
  return SampleStream(std::move(set), std::move(options));
}

SampleStream::SampleStream(ImageSet set, StreamOptions options) : set_(std::move(set)), options_(std::move(options)) {
  for (int64_t c = 0; c < set_.sample_shape[0]; ++c) {
    scaling_.scale.push_back(1 / (set_.largest_value * options_.std[c]));
    scaling_.shift.push_back(-options_.mean[c] / options_.std[c]);
  }
}

std::string SampleStream::description() const {
  return absl::StrFormat("%s: %d images %s, %d classes%s%s", set_.name, set_.size(), program::ToString(set_.sample_shape),
                         set_.classes, options_.shuffle ? ", shuffled" : "",
                         options_.shift ? ", shifted by up to a pixel" : "");
}

int64_t SampleStream::SampleAt(int64_t position) const {
  const int64_t epoch = position / size(), place = position % size();
  return options_.shuffle ? SampleOrder(options_.seed, epoch, size()).At(place) : place;
}

// One image, moved. What moves in from outside are zeros.
void SampleStream::Copy(int64_t sample, int64_t epoch, absl::Span<uint8_t> image) const {
  const int64_t channels = set_.sample_shape[0], rows = set_.sample_shape[1], columns = set_.sample_shape[2];
  int64_t down = 0, right = 0;
  if (options_.shift) {
    const program::Philox4 r = program::RandomBlock(options_.seed, program::RandomPurpose::kAugmentation, 0,
                                                    static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
    down = static_cast<int64_t>(r.v[0] % 3) - 1;
    right = static_cast<int64_t>(r.v[1] % 3) - 1;
  }
  const uint8_t* pixels = set_.pixels.data() + sample * channels * rows * columns;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) {
        const int64_t from_y = y - down, from_x = x - right;
        const bool inside = from_y >= 0 && from_y < rows && from_x >= 0 && from_x < columns;
        image[(y * columns + x) * channels + c] = inside ? pixels[(c * rows + from_y) * columns + from_x] : 0;
      }
    }
  }
}

absl::Status SampleStream::Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) {
  const int64_t elements = program::ElementCount(set_.sample_shape);
  if (position < 0 || images.size() != labels.size() * static_cast<size_t>(elements)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected a position from 0 and room for %d images %s, found position %d and room for %d values",
                        labels.size(), program::ToString(set_.sample_shape), position, images.size()));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t at = position + static_cast<int64_t>(i);
    absl::Span<uint8_t> image = images.subspan(i * static_cast<size_t>(elements), static_cast<size_t>(elements));
    if (options_.once && at >= size()) {
      std::fill(image.begin(), image.end(), uint8_t{0});
      labels[i] = -1;
      continue;
    }
    const int64_t sample = SampleAt(at);
    Copy(sample, at / size(), image);
    labels[i] = set_.labels[sample];
  }
  return absl::OkStatus();
}

}  // namespace colonnade::data
