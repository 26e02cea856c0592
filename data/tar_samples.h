// Which members of a tar archive make a sample: by key, as WebDataset has it, or by class folder, as image folders have it.
#ifndef COLONNADE_DATA_TAR_SAMPLES_H_
#define COLONNADE_DATA_TAR_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/dataset.h"
#include "data/tar.h"

namespace colonnade::data {

struct TarSample {
  std::string name;              // its key, or the path of its image
  int64_t offset = 0, size = 0;  // of the image
  int32_t label = 0;
};

struct TarSamples {
  std::vector<TarSample> samples;
  std::vector<std::string> class_names;  // "": labels are numbers
  std::vector<std::string> notes;
};

// Whether a member is the class of a sample: whether its name ends in .cls behind the first dot.
bool HasClassMember(const TarIndex& index);

// Returns the samples whose members share a key, which is a path up to the first dot of its last name: an image (.jpg,
// .jpeg, .png) and its class (.cls, the number in digits); others are left out. InvalidArgument naming the key that lacks
// one of the two, has one twice, or whose class is no number below `classes` (as of CheckLabel).
absl::StatusOr<TarSamples> SamplesByKey(const ByteSource& file, const TarIndex& index, int64_t classes);

// Returns the images in [TOP/]train/CLASS/… and [TOP/]val/CLASS/… or [TOP/]test/CLASS/… (or split_names.h), or in
// [TOP/]CLASS/…. Classes are those of the training images, sorted by name. NotFound where there are no images of that split.
// Test images without training images have the classes `class_names` if those are all of theirs; else their own.
absl::StatusOr<TarSamples> SamplesByFolder(const TarIndex& index, SplitOf split,
                                           const std::vector<std::string>& class_names);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_TAR_SAMPLES_H_
