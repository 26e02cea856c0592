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

// Returns the image files of `paths` in their order: a file, whatever its name ends with, or a folder for the images in it
// and in the folders below, also behind links (HasImageEnding), sorted by path; what is hidden is left out. A path that
// names nothing counts as a file, so that the others can be answered; NotFound where all name nothing. InvalidArgument where
// a folder has no image or links lead to a folder again, NotFound or DataLoss where one cannot be read.
absl::StatusOr<std::vector<std::string>> ListImageFiles(absl::Span<const std::string> paths);

// Returns the set of these files. The label of each is −1; `class_names` are those that a network tells apart.
std::unique_ptr<SampleSet> UnlabelledImages(std::vector<std::string> files, std::vector<std::string> class_names);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_UNLABELLED_IMAGES_H_
