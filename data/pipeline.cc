#include "data/pipeline.h"

#define XXH_INLINE_ALL  // the header alone is needed
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "data/sample_maker.h"
#include "data/sample_order.h"

namespace colonnade::data {
namespace {

uint64_t DigestOf(int64_t epoch, int64_t sample, const View& view) {
  const double drawn[] = {
      view.box.top,
      view.box.left,
      view.box.height,
      view.box.width,
      view.mirrored ? 1.0 : 0.0,
      view.brightness,
      view.contrast,
      view.saturation,
      view.hue,
      view.light[0],
      view.light[1],
      view.light[2],
      static_cast<double>(view.cut_top),
      static_cast<double>(view.cut_left),
      static_cast<double>(view.cut_height),
      static_cast<double>(view.cut_width),
  };
  const uint64_t of_sample[] = {static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample),
                                XXH3_64bits(drawn, sizeof(drawn))};
  return XXH3_64bits(of_sample, sizeof(of_sample));
}

uint64_t Extend(uint64_t hash, uint64_t digest) {
  const uint64_t both[] = {hash, digest};
  return XXH3_64bits(both, sizeof(both));
}

// What the threads fill positions with; they share it, and the last one that uses it ends it.
class Filler {
 public:
  Filler(std::shared_ptr<const SampleSet> set, std::shared_ptr<JpegIndices> indices, const PipelineOptions& options)
      : maker_(std::move(set), options.augment, options.seed, std::move(indices)), options_(options) {}

  void Fill(WorkerClock& clock, int64_t position, absl::Span<uint8_t> pixels, Filled& filled) const {
    filled = {};
    if (options_.once && position >= size()) return Pad(pixels);
    const int64_t epoch = position / size();
    const SampleOrder order(options_.seed, epoch, size());
    int64_t tried = 0;
    for (; !IsTooManyBad(tried, size()); ++tried) {
      const int64_t place = (position + tried) % size();
      const int64_t sample = options_.shuffle ? order.At(place) : place;
      const absl::Status status = Try(clock, epoch, sample, pixels, filled);
      if (status.ok()) return;
      if (tried > 0) continue;
      filled.skipped = status;
      filled.skipped_label = maker_.set().label(sample);
      if (options_.bad_sample == BadSample::kError) return;
      if (options_.once || options_.bad_sample == BadSample::kPad) return Pad(pixels);
    }
    filled.error = absl::InvalidArgumentError(
        absl::StrFormat("%s: expected at most 1 in 100 of %d samples that cannot be used, found %d in a row; the first: %s",
                        maker_.set().name(), size(), tried, filled.skipped.message()));
  }

 private:
  absl::Status Try(WorkerClock& clock, int64_t epoch, int64_t sample, absl::Span<uint8_t> pixels, Filled& filled) const {
    thread_local SampleMaker::Scratch scratch;
    const absl::StatusOr<View> view = maker_.Make(sample, epoch, scratch, clock, pixels);
    clock.Finish();
    RETURN_IF_ERROR(view.status());
    filled.label = maker_.set().label(sample);
    filled.digest = DigestOf(epoch, sample, *view);
    return absl::OkStatus();
  }

  int64_t size() const { return maker_.set().size(); }
  static void Pad(absl::Span<uint8_t> pixels) { std::fill(pixels.begin(), pixels.end(), uint8_t{0}); }

  SampleMaker maker_;
  PipelineOptions options_;
};

std::string DescribeCropping(const AugmentOptions& augment) {
  switch (augment.cropping) {
    case Cropping::kWhole:
      return "";
    case Cropping::kPadded:
      return absl::StrCat(", shifted by up to ", base::Counted(augment.pad, "pixel"));
    case Cropping::kRandomResized:
      return absl::StrFormat(", random parts of %g to %g of the area", augment.least_area, augment.most_area);
    case Cropping::kScaledRandom:
      return absl::StrFormat(", random parts at a shorter side of %d%s", augment.resize,
                             augment.resize_max > augment.resize ? absl::StrCat(" to ", augment.resize_max) : "");
    case Cropping::kCentre:
      return absl::StrFormat(", the middle at a shorter side of %d", augment.resize);
  }
  return "";
}

std::string DescribeAugmentation(const AugmentOptions& augment) {
  const bool jitters = augment.brightness > 0 || augment.contrast > 0 || augment.saturation > 0 || augment.hue > 0;
  return absl::StrCat(DescribeCropping(augment), augment.mirror ? ", mirrored" : "", jitters ? ", colours jittered" : "",
                      augment.lighting > 0 ? ", lighting changed" : "", augment.cutout > 0 ? ", with squares cut out" : "");
}

absl::Status CheckOptions(const PipelineOptions& options) {
  RETURN_IF_ERROR(options.augment.Check());
  if (options.threads < 1 || options.prefetch < 1 || options.timeout <= absl::ZeroDuration()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "expected at least 1 thread, 1 batch in memory (prefetch) and a timeout above 0, found %d, %d and %s",
        options.threads, options.prefetch, absl::FormatDuration(options.timeout)));
  }
  if (options.jpeg_index_bytes < 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected 0 or more bytes for indices of JPEGs, found %d", options.jpeg_index_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(std::shared_ptr<const SampleSet> set, PipelineOptions options) {
  RETURN_IF_ERROR(CheckSamples(set.get()));
  if (const auto shape = set->image_shape(); shape.has_value() && options.augment.height == 0) {
    options.augment.channels = (*shape)[0];
    options.augment.height = (*shape)[1];
    options.augment.width = (*shape)[2];
  }
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.moments.mean.empty() || options.moments.std.empty()) {
    const AugmentOptions whole{
        .height = options.augment.height, .width = options.augment.width, .channels = options.augment.channels};
    ASSIGN_OR_RETURN(const Moments measured, MeasureMoments(set, options.test_view.value_or(whole),
                                                            {.border = options.border,
                                                             .skips_bad = options.bad_sample == BadSample::kSkip,
                                                             .threads = options.threads,
                                                             .timeout = options.timeout}));
    if (options.moments.mean.empty()) options.moments.mean = measured.mean;
    if (options.moments.std.empty()) options.moments.std = measured.std;
  }
  RETURN_IF_ERROR(SpreadOverChannels(options.augment.channels, options.moments));
  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(set), std::move(options)));
  RETURN_IF_ERROR(pipeline->StartRing());
  return pipeline;
}

Pipeline::Pipeline(std::shared_ptr<const SampleSet> set, PipelineOptions options)
    : set_(std::move(set)),
      options_(std::move(options)),
      indices_(std::make_shared<JpegIndices>(set_->size(), options_.jpeg_index_bytes)),
      sample_shape_{options_.augment.channels, options_.augment.height, options_.augment.width},
      scaling_(ScalingOf(options_.moments, set_->largest_value())) {}

absl::Status Pipeline::StartRing() {
  const RingOptions ring{.threads = options_.threads,
                         .depth = options_.prefetch,
                         .sample_bytes = program::ElementCount(sample_shape_),
                         .timeout = options_.timeout};
  const auto filler = std::make_shared<const Filler>(set_, indices_, options_);
  ASSIGN_OR_RETURN(ring_, BatchRing::Create(
                              ring,
                              [filler](WorkerClock& clock, int64_t position, absl::Span<uint8_t> pixels, Filled& filled) {
                                filler->Fill(clock, position, pixels, filled);
                              },
                              [set = set_](int64_t sample) { return set->sample_name(sample); }));
  return absl::OkStatus();
}

std::string Pipeline::description() const {
  return absl::StrFormat("%s: %s %s, %s%s%s", set_->name(), base::Counted(size(), "image"), program::ToString(sample_shape_),
                         base::Counted(LabelledClasses(*set_), "class"), options_.shuffle ? ", shuffled" : "",
                         DescribeAugmentation(options_.augment));
}

absl::Status Pipeline::Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) {
  const int64_t count = static_cast<int64_t>(labels.size());
  if (position < 0 || count == 0 || static_cast<int64_t>(images.size()) != count * program::ElementCount(sample_shape_)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("expected a position from 0 and room for %d images %s, found position %d and room for %d bytes",
                        count, program::ToString(sample_shape_), position, images.size()));
  }
  return Visit(position, count, [&](const Batch& batch) {
    std::copy(batch.pixels.begin(), batch.pixels.end(), images.begin());
    for (int64_t i = 0; i < count; ++i) labels[i] = batch.samples[i].label;
  });
}

absl::Status Pipeline::Visit(int64_t position, int64_t count, const std::function<void(const Batch&)>& visit) {
  ASSIGN_OR_RETURN(const Batch* batch, ring_->Wait(position, count));
  RETURN_IF_ERROR(Deliver(position, *batch));
  visit(*batch);
  next_position_ = position + count;
  ring_->Release();
  return absl::OkStatus();
}

absl::Status Pipeline::Deliver(int64_t position, const Batch& batch) {
  if (position != next_position_) bad_ = {.epoch = EpochAt(position)};
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    RETURN_IF_ERROR(Note(position + static_cast<int64_t>(i), batch.samples[i]));
  }
  for (const Filled& sample : batch.samples) {
    if (sample.digest != 0) delivered_hash_ = Extend(delivered_hash_, sample.digest);
  }
  return absl::OkStatus();
}

absl::Status Pipeline::Note(int64_t position, const Filled& sample) {
  RETURN_IF_ERROR(sample.error);
  const bool is_padded = !sample.skipped.ok() && options_.bad_sample == BadSample::kPad;
  if (is_padded && options_.on_padded) options_.on_padded(position, sample.skipped);
  if (!sample.skipped.ok() && !is_padded) {
    if (options_.bad_sample == BadSample::kError) return sample.skipped;
    bad_.Add(sample.skipped_label, sample.skipped);
    if (IsTooManyBad(bad_.count, size())) return TooManyBad(bad_, size());
  }
  const bool ends_epoch = (position + 1) % size() == 0;
  if (!ends_epoch) return absl::OkStatus();
  if (bad_.count > 0) reports_.push_back(std::move(bad_));
  bad_ = {.epoch = EpochAt(position + 1)};
  return absl::OkStatus();
}

std::vector<BadSamples> Pipeline::Report(bool with_last) {
  if (with_last && bad_.count > 0) reports_.push_back(std::exchange(bad_, {.epoch = bad_.epoch}));
  std::vector<BadSamples> reports = std::exchange(reports_, {});
  if (!options_.once || reports.empty()) return reports;
  reports.resize(std::exchange(has_told_, true) ? 0 : 1);
  return reports;
}

}  // namespace colonnade::data
