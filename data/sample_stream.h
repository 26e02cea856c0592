// The continuous stream of training samples, and the one pass over test samples.
//
// For images in memory, without threads: what Pipeline delivers of the same set. Position p of the training stream is a
// sample of epoch p / size. The order of an epoch is a permutation that depends on (seed, epoch) alone; the shift of a
// sample depends on (seed, epoch, its place in the set) alone.
#ifndef COLONNADE_DATA_SAMPLE_STREAM_H_
#define COLONNADE_DATA_SAMPLE_STREAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image_set.h"
#include "engine/data_source.h"

namespace colonnade::data {

struct StreamOptions {
  uint64_t seed = 1;
  bool shuffle = true;
  bool shift = false;                 // by −1, 0 or 1 pixel in each direction, zeros moved in
  bool once = false;                  // a test set: positions past its end are padding of label −1
  std::vector<double> mean{}, std{};  // per channel, of values scaled to 0..1
};

class SampleStream : public engine::DataSource {
 public:
  // FailedPrecondition if mean and std are not one or one per channel, or a std is not positive.
  static absl::StatusOr<SampleStream> Create(ImageSet set, StreamOptions options);

  std::string description() const override;
  int64_t size() const override { return set_.size(); }
  const program::Shape& sample_shape() const override { return set_.sample_shape; }
  int64_t classes() const override { return set_.classes; }
  const program::PixelScaling& scaling() const override { return scaling_; }
  absl::Status Read(int64_t position, absl::Span<uint8_t> images, absl::Span<int32_t> labels) override;

 private:
  SampleStream(ImageSet set, StreamOptions options);
  int64_t SampleAt(int64_t position) const;
  void Copy(int64_t sample, int64_t epoch, absl::Span<uint8_t> image) const;

  ImageSet set_;
  StreamOptions options_;
  program::PixelScaling scaling_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SAMPLE_STREAM_H_
