// Brings samples from where they lie into batches of bytes, by threads that work ahead of the steps.
//
// Position p of the stream is a sample of epoch p / size, in the order of SampleOrder; how it is augmented depends on (seed,
// epoch, sample) alone. So what is delivered depends neither on threads nor on how batches cut the stream.
#ifndef COLONNADE_DATA_PIPELINE_H_
#define COLONNADE_DATA_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/augment.h"
#include "data/bad_samples.h"
#include "data/batch_ring.h"
#include "data/jpeg_indices.h"
#include "data/moments.h"
#include "data/sample_set.h"
#include "data/stage_times.h"
#include "engine/data_source.h"

namespace colonnade::data {

// What becomes of a sample that cannot be read or decoded.
enum class BadSample {
  kError,  // Read returns why
  kSkip,   // the next good one of the epoch's order stands in its place; in a set that is read once, padding does
  kPad,    // padding stands in its place, however many there are, and `on_padded` is told
};

struct PipelineOptions {
  uint64_t seed = 1;
  bool shuffle = true;
  bool once = false;  // a test set: positions past its end are padding of label −1
  // Its height, width and channels are those of what is delivered; with a height of 0 all three are the set's, whose images
  // have one shape.
  AugmentOptions augment{};
  int threads = 1;
  int prefetch = 3;              // batches in memory: the one that is read, and those that are filled ahead
  int64_t jpeg_index_bytes = 0;  // for indices of the set's JPEGs (jpeg_indices.h); 0: none
  BadSample bad_sample = BadSample::kError;
  // With kPad: called with the position of a sample, and with why it is not there, as its batch is read.
  std::function<void(int64_t position, const absl::Status& why)> on_padded{};
  absl::Duration timeout = absl::Seconds(60);  // for one sample
  Moments moments{};                           // each empty: measured on the set
  // What a test sees of an image, by which moments are measured. Absent: all of it, at the size of `augment`.
  std::optional<AugmentOptions> test_view{};
  int64_t border = 0;  // pixels of value 0 around the set's images, which are not measured
};

class Pipeline : public engine::DataSource {
 public:
  // Makes a pipeline; measures the moments that are empty. FailedPrecondition names the option whose value is wrong.
  // Errors as CheckSamples, too.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(std::shared_ptr<const SampleSet> set, PipelineOptions options);

  std::string description() const override;
  int64_t size() const override { return set_->size(); }
  const program::Shape& sample_shape() const override { return sample_shape_; }
  int64_t classes() const override { return set_->classes(); }
  const program::PixelScaling& scaling() const override { return scaling_; }
  // InvalidArgument, NotFound or DataLoss names the sample: the first bad one of the batch, or the one at which a thread
  // hangs. With kSkip, InvalidArgument where more than 1 % of the epoch's samples are bad.
  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override;
  // Does as Read does, without a copy: calls `visit` with the batch, which may be read while that runs.
  // REQUIRES: position >= 0, count > 0.
  absl::Status Visit(int64_t position, int64_t count, const std::function<void(const Batch&)>& visit);

  const std::vector<std::string>& class_names() const { return set_->class_names(); }
  const Moments& moments() const { return options_.moments; }
  JpegIndices::Kept jpeg_indices() const { return indices_->kept(); }
  StageTimes Stages() const { return ring_->Times(); }
  // Returns the skipped samples of each epoch that has ended since the last call and had any; with `with_last` also those of
  // the epoch under way, as far as it has come. A set that is read once has the same ones whenever it is read: they are
  // returned the first time alone.
  std::vector<BadSamples> Report(bool with_last = false);
  // Returns a hash of all that was delivered so far, in its order: epochs, samples, and how each was seen.
  uint64_t delivered_hash() const { return delivered_hash_; }

 private:
  Pipeline(std::shared_ptr<const SampleSet> set, PipelineOptions options);
  absl::Status StartRing();
  absl::Status Deliver(int64_t position, const Batch& batch);
  absl::Status Note(int64_t position, const Filled& sample);
  int64_t EpochAt(int64_t position) const { return options_.once ? BadSamples::kReadOnce : position / size(); }

  std::shared_ptr<const SampleSet> set_;
  PipelineOptions options_;
  std::shared_ptr<JpegIndices> indices_;
  program::Shape sample_shape_;
  program::PixelScaling scaling_;
  int64_t next_position_ = -1;
  uint64_t delivered_hash_ = 0;
  BadSamples bad_;                   // of the epoch that is being delivered
  std::vector<BadSamples> reports_;  // of the epochs before it
  bool has_told_ = false;            // of a set that is read once
  std::unique_ptr<BatchRing> ring_;  // there from Create on
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_PIPELINE_H_
