// Samples whose pixels are in memory: digits, synthetic images, IDX and CIFAR.
#ifndef COLONNADE_DATA_MEMORY_SET_H_
#define COLONNADE_DATA_MEMORY_SET_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image_set.h"
#include "data/sample_set.h"

namespace colonnade::data {

class MemorySet final : public SampleSet {
 public:
  // Channels become innermost here, once. REQUIRES: a name for each of set.classes.
  MemorySet(ImageSet set, std::vector<std::string> class_names, std::vector<std::string> notes = {});

  const std::string& name() const override { return set_.name; }
  int64_t size() const override { return set_.size(); }
  int32_t label(int64_t sample) const override { return set_.labels[sample]; }
  std::string sample_name(int64_t sample) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::optional<program::Shape> image_shape() const override { return set_.sample_shape; }
  double largest_value() const override { return set_.largest_value; }
  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override;

 private:
  ImageSet set_;  // pixels: [N, H, W, C]
  std::vector<std::string> class_names_, notes_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_MEMORY_SET_H_
