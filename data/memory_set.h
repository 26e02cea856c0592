// Samples whose pixels are in memory: digits, synthetic images, IDX and CIFAR.
#ifndef COLONNADE_DATA_MEMORY_SET_H_
#define COLONNADE_DATA_MEMORY_SET_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image_set.h"
#include "data/sample_set.h"

namespace colonnade::data {

class MemorySet final : public SampleSet {
 public:
  // Makes a set; channels become innermost here, once. Without names, classes are named by their numbers; where set.classes
  // is 0, there are as many as names, or as labels need. InvalidArgument, with expected and found, where sample_shape is no
  // image's, pixels are not those of an image for each label, a label is of no class, or names are not one for each class.
  static absl::StatusOr<std::unique_ptr<MemorySet>> Create(ImageSet set, std::vector<std::string> class_names = {},
                                                           std::vector<std::string> notes = {});

  const std::string& name() const override { return set_.name; }
  int64_t size() const override { return set_.size(); }
  int32_t label(int64_t sample) const override { return set_.labels[sample]; }
  std::string sample_name(int64_t sample) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::optional<program::Shape> image_shape() const override { return set_.sample_shape; }
  double largest_value() const override { return set_.largest_value; }
  absl::StatusOr<StoredImage> Read(int64_t sample, std::string& room) const override;
  bool are_all_classes_meant() const override { return set_.are_all_classes_meant; }

 private:
  MemorySet(ImageSet set, std::vector<std::string> class_names, std::vector<std::string> notes);

  ImageSet set_;  // pixels: [N, H, W, C]
  std::vector<std::string> class_names_, notes_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_MEMORY_SET_H_
