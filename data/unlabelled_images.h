// Image files of which nobody says what they show: what a trained network is asked about.
#ifndef COLONNADE_DATA_UNLABELLED_IMAGES_H_
#define COLONNADE_DATA_UNLABELLED_IMAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/sample_set.h"

namespace colonnade::data {

// Returns the images of `paths` in their order: a file, whatever its name ends with, or a folder for the images in it and in
// the folders below (HasImageEnding), sorted by path; what is hidden is left out. The label of each is −1; `class_names` are
// those that a network tells apart. NotFound where a path names nothing, InvalidArgument where a folder has no image,
// DataLoss where it cannot be read.
absl::StatusOr<std::unique_ptr<SampleSet>> OpenUnlabelledImages(absl::Span<const std::string> paths,
                                                                std::vector<std::string> class_names);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_UNLABELLED_IMAGES_H_
