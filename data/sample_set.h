// The samples of a data set where they lie: how many there are, of which classes, and the bytes of each.
//
// A format is one implementation; formats.h lists them. Everything but Read is known once the set is open, without reading
// the images. Thread rule: all methods may be called by any number of threads at once.
#ifndef COLONNADE_DATA_SAMPLE_SET_H_
#define COLONNADE_DATA_SAMPLE_SET_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "program/types.h"

namespace colonnade::data {

inline constexpr int64_t kLargestImageFile = int64_t{1} << 30;  // bytes

// One sample as it is kept.
struct StoredImage {
  bool is_encoded = false;                      // an image file (decode.h); else pixels
  int64_t height = 0, width = 0, channels = 0;  // of pixels
  absl::string_view bytes;                      // of pixels: [H, W, C]; lives as long as the set and `room` do
};

class SampleSet {
 public:
  virtual ~SampleSet() = default;
  virtual const std::string& name() const = 0;  // "digits train", "/data/imagenet: train"
  virtual int64_t size() const = 0;
  virtual int32_t label(int64_t sample) const = 0;                  // from 0
  virtual std::string sample_name(int64_t sample) const = 0;        // for messages: a path, "a.rec: record 17"
  virtual const std::vector<std::string>& class_names() const = 0;  // by label
  int64_t classes() const { return static_cast<int64_t>(class_names().size()); }
  // Returns what users should be told of the set, a sentence each: "12 of 1000 classes have no test images: …".
  virtual std::vector<std::string> notes() const { return {}; }
  // Returns {C, H, W} of every image, where the format says that all are alike.
  virtual std::optional<program::Shape> image_shape() const { return std::nullopt; }
  virtual double largest_value() const { return 255; }  // the pixel value that stands for 1

  // Returns the bytes of one sample; `room` may be used to hold them. NotFound, DataLoss or InvalidArgument, naming the
  // sample, where the file has gone, cannot be read, or is not what it was when the set was opened.
  virtual absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const = 0;

  // Whether a network for these samples needs all classes(), though the largest label may have none.
  virtual bool are_all_classes_meant() const { return false; }
};

// Returns InvalidArgument where `set` is null, has no samples, or states an image_shape() that is no image's.
absl::Status CheckSamples(const SampleSet* set);

// Returns the largest label + 1, where the set may have more classes that are not meant.
inline int64_t LabelledClasses(const SampleSet& set) {
  if (set.are_all_classes_meant()) return set.classes();
  int32_t largest = -1;
  for (int64_t sample = 0; sample < set.size(); ++sample) largest = std::max(largest, set.label(sample));
  return largest + 1;
}

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_SAMPLE_SET_H_
