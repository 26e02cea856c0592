// What a sample becomes on its way into a batch: read, decoded, cut and coloured as its view says.
#ifndef COLONNADE_DATA_SAMPLE_MAKER_H_
#define COLONNADE_DATA_SAMPLE_MAKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/augment.h"
#include "data/decode.h"
#include "data/image.h"
#include "data/jpeg_indices.h"
#include "data/sample_set.h"
#include "data/stage_times.h"

namespace colonnade::data {

class SampleMaker {
 public:
  // Memory of one thread, used again for each sample where that is not large.
  struct Scratch {
    std::string bytes;
    Image image;
    std::vector<uint8_t> inside;  // of a frame
  };

  // `indices`: of the set's JPEGs, or null.
  SampleMaker(std::shared_ptr<const SampleSet> set, const AugmentOptions& augment, uint64_t seed,
              std::shared_ptr<JpegIndices> indices = nullptr);

  // Writes the image [height, width, channels] of `sample` in `epoch`; how it was seen. Starts `clock` with the sample and
  // laps it, but does not finish it. An error names the sample. May be called by many threads.
  absl::StatusOr<View> Make(int64_t sample, int64_t epoch, Scratch& scratch, WorkerClock& clock,
                            absl::Span<uint8_t> out) const;

  const SampleSet& set() const { return *set_; }
  int64_t sample_bytes() const { return (augment_.height + 2 * frame_) * (augment_.width + 2 * frame_) * augment_.channels; }

 private:
  absl::StatusOr<View> MakeInside(int64_t sample, int64_t epoch, Scratch& scratch, WorkerClock& clock,
                                  absl::Span<uint8_t> out) const;
  absl::StatusOr<View> MakeOfFile(int64_t sample, int64_t epoch, absl::string_view file, Image& image, WorkerClock& clock,
                                  absl::Span<uint8_t> out) const;
  std::shared_ptr<const JpegIndex> IndexOf(int64_t sample, absl::string_view file, const ImageHeader& header) const;
  absl::StatusOr<View> MakeOfPixels(int64_t sample, int64_t epoch, const StoredImage& stored, Image& image,
                                    WorkerClock& clock, absl::Span<uint8_t> out) const;

  std::shared_ptr<const SampleSet> set_;
  int64_t frame_;
  AugmentOptions augment_;  // of what is inside the frame
  uint64_t seed_;
  std::shared_ptr<JpegIndices> indices_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SAMPLE_MAKER_H_
