#include "data/moments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "data/sample_maker.h"
#include "program/status_macros.h"

namespace colonnade::data {
namespace {

// Of all pixels that were added, in the order in which they came.
class Sums {
 public:
  explicit Sums(int64_t channels, double largest_value) : mean_(channels), squares_(channels), largest_(largest_value) {}

  void Add(const uint8_t* pixel) {
    for (size_t c = 0; c < mean_.size(); ++c) {
      const double value = pixel[c] / largest_;
      mean_[c] += value;
      squares_[c] += value * value;
    }
    ++count_;
  }

  bool empty() const { return count_ == 0; }
  Moments Result() const {
    Moments moments;
    moments.mean = mean_;
    const double count = static_cast<double>(std::max<int64_t>(count_, 1));
    for (size_t c = 0; c < mean_.size(); ++c) {
      const double mean = moments.mean[c] /= count;
      moments.std.push_back(std::sqrt(std::max(squares_[c] / count - mean * mean, 1e-8)));
    }
    return moments;
  }

 private:
  std::vector<double> mean_, squares_;
  double largest_;
  int64_t count_ = 0;
};

absl::Status CheckCount(const char* name, const std::vector<double>& values, int64_t channels) {
  if (static_cast<int64_t>(values.size()) == channels || values.size() == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected one number or one for each of %d channels, found %d", name, channels, values.size()));
}

absl::StatusOr<Moments> MomentsOfPixels(const SampleSet& set, const program::Shape& shape, int64_t border) {
  const int64_t channels = shape[0], rows = shape[1], columns = shape[2];
  Sums sums(channels, set.largest_value());
  std::string room;
  for (int64_t sample = 0; sample < set.size(); ++sample) {
    ASSIGN_OR_RETURN(const StoredImage stored, set.Read(sample, room));
    const auto* pixels = reinterpret_cast<const uint8_t*>(stored.bytes.data());
    for (int64_t y = border; y < rows - border; ++y) {
      for (int64_t x = border; x < columns - border; ++x) sums.Add(pixels + (y * columns + x) * channels);
    }
  }
  return sums.Result();
}

absl::StatusOr<Moments> MomentsOfSome(const SampleSet& set, const AugmentOptions& augment, bool skips_bad) {
  const AugmentOptions middle{.height = augment.height,
                              .width = augment.width,
                              .channels = augment.channels,
                              .cropping = Cropping::kCentre,
                              .resize = std::max({augment.resize, augment.height, augment.width})};
  const SampleMaker maker(std::shared_ptr<const SampleSet>(std::shared_ptr<void>(), &set), middle, 0);
  Sums sums(augment.channels, set.largest_value());
  SampleMaker::Room room;
  WorkerClock clock;
  std::vector<uint8_t> image(maker.sample_bytes());
  const int64_t count = std::min(set.size(), kMostMeasured);
  for (int64_t i = 0; i < count; ++i) {
    const absl::Status status = maker.Make(i * set.size() / count, 0, room, clock, absl::MakeSpan(image)).status();
    if (!status.ok() && (!skips_bad || (i + 1 == count && sums.empty()))) return status;
    if (!status.ok()) continue;
    for (size_t at = 0; at < image.size(); at += augment.channels) sums.Add(image.data() + at);
  }
  return sums.Result();
}

}  // namespace

absl::StatusOr<Moments> MeasureMoments(const SampleSet& set, const AugmentOptions& augment, const MeasureOptions& options) {
  const std::optional<program::Shape> shape = set.image_shape();
  if (!shape.has_value()) return MomentsOfSome(set, augment, options.skips_bad);
  std::string room;
  ASSIGN_OR_RETURN(const StoredImage first, set.Read(0, room));
  return first.is_encoded ? MomentsOfSome(set, augment, options.skips_bad) : MomentsOfPixels(set, *shape, options.border);
}

absl::Status SpreadOverChannels(int64_t channels, Moments& moments) {
  RETURN_IF_ERROR(CheckCount("mean", moments.mean, channels));
  RETURN_IF_ERROR(CheckCount("std", moments.std, channels));
  moments.mean.resize(channels, moments.mean[0]);
  moments.std.resize(channels, moments.std[0]);
  for (double s : moments.std) {
    if (!(s > 0)) return absl::FailedPreconditionError(absl::StrFormat("std: expected numbers above 0, found %g", s));
  }
  return absl::OkStatus();
}

program::PixelScaling ScalingOf(const Moments& moments, double largest_value) {
  program::PixelScaling scaling;
  for (size_t c = 0; c < moments.mean.size(); ++c) {
    scaling.scale.push_back(1 / (largest_value * moments.std[c]));
    scaling.shift.push_back(-moments.mean[c] / moments.std[c]);
  }
  return scaling;
}

}  // namespace colonnade::data
