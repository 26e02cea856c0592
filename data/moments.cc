#include "data/moments.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "data/batch_ring.h"
#include "data/sample_maker.h"

namespace colonnade::data {
namespace {

constexpr int64_t kAtOnce = 32;  // images of a batch

// Of all pixels that were added, in the order in which they came.
class Sums {
 public:
  explicit Sums(int64_t channels, double largest_value) : sums_(channels), squares_(channels), largest_(largest_value) {}

  void Add(const uint8_t* pixel) {
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double value = pixel[c] / largest_;
      sums_[c] += value;
      squares_[c] += value * value;
    }
    ++count_;
  }

  bool empty() const { return count_ == 0; }
  Moments Result() const {
    Moments moments;
    moments.mean = sums_;
    const double count = static_cast<double>(std::max<int64_t>(count_, 1));
    for (size_t c = 0; c < sums_.size(); ++c) {
      const double mean = moments.mean[c] /= count;
      moments.std.push_back(std::sqrt(std::max(squares_[c] / count - mean * mean, 1e-8)));
    }
    return moments;
  }

 private:
  std::vector<double> sums_, squares_;
  double largest_;
  int64_t count_ = 0;
};

absl::Status CheckCount(const char* name, const std::vector<double>& values, int64_t channels) {
  if (static_cast<int64_t>(values.size()) == channels || values.size() == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat("%s: expected one number or one for each of %s, found %d", name,
                                                       base::Counted(channels, "channel"), values.size()));
}

// Which samples are measured, and how they are seen.
struct Measured {
  AugmentOptions view;
  int64_t count = 0, border = 0;
};

Measured WhatIsMeasured(const SampleSet& set, const AugmentOptions& view, int64_t border) {
  if (const std::optional<program::Shape> shape = set.image_shape()) {
    return {{.height = (*shape)[1], .width = (*shape)[2], .channels = (*shape)[0]}, set.size(), border};
  }
  return {view, std::min(set.size(), kMostMeasured)};
}

absl::Status CheckBorder(const Measured& measured) {
  if (measured.border >= 0 && 2 * measured.border < std::min(measured.view.height, measured.view.width))
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("border: expected 0 to less than half of an image of %d x %d, found %d", measured.view.height,
                      measured.view.width, measured.border));
}

// Reads in the way of the pipeline, so that a read that hangs ends it here, too.
absl::StatusOr<std::unique_ptr<BatchRing>> RingOf(const std::shared_ptr<const SampleSet>& set, const Measured& measured,
                                                  const MeasureOptions& options) {
  const auto maker = std::make_shared<const SampleMaker>(set, measured.view, /*seed=*/0);
  const auto fill = [maker, size = set->size(), count = measured.count](WorkerClock& clock, int64_t position,
                                                                        absl::Span<uint8_t> pixels, Filled& filled) {
    filled = {};
    if (position >= count) return;
    thread_local SampleMaker::Scratch scratch;
    filled.skipped = maker->Make(position * size / count, /*epoch=*/0, scratch, clock, pixels).status();
    clock.Finish();
  };
  const RingOptions ring{
      .threads = options.threads, .depth = 2, .sample_bytes = maker->sample_bytes(), .timeout = options.timeout};
  return BatchRing::Create(ring, fill, [set](int64_t sample) { return set->sample_name(sample); });
}

void AddImage(const Measured& measured, const uint8_t* pixels, Sums& sums) {
  const auto& [height, width, channels] = std::tie(measured.view.height, measured.view.width, measured.view.channels);
  for (int64_t y = measured.border; y < height - measured.border; ++y) {
    for (int64_t x = measured.border; x < width - measured.border; ++x) sums.Add(pixels + (y * width + x) * channels);
  }
}

}  // namespace

absl::StatusOr<Moments> MeasureMoments(std::shared_ptr<const SampleSet> set, const AugmentOptions& view,
                                       const MeasureOptions& options) {
  RETURN_IF_ERROR(CheckSamples(set.get()));
  const Measured measured = WhatIsMeasured(*set, view, options.border);
  RETURN_IF_ERROR(CheckBorder(measured));
  const int64_t image_bytes = measured.view.height * measured.view.width * measured.view.channels;
  ASSIGN_OR_RETURN(const std::unique_ptr<BatchRing> ring, RingOf(set, measured, options));
  Sums sums(measured.view.channels, set->largest_value());
  absl::Status bad;
  for (int64_t at = 0; at < measured.count; at += kAtOnce) {
    ASSIGN_OR_RETURN(const Batch* batch, ring->Wait(at, kAtOnce));
    for (int64_t i = 0; i < std::min(kAtOnce, measured.count - at); ++i) {
      const Filled& sample = batch->samples[i];
      RETURN_IF_ERROR(sample.error);
      bad.Update(sample.skipped);
      if (!bad.ok() && !options.skips_bad) return bad;
      if (sample.skipped.ok()) AddImage(measured, batch->pixels.data() + i * image_bytes, sums);
    }
    ring->Release();
  }
  if (sums.empty()) return bad;
  return sums.Result();
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
