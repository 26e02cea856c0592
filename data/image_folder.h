// Image files in one folder for each class, as torchvision's ImageFolder has them.
//
//   PATH/train/CLASS/…/IMAGE and PATH/val/CLASS/…/IMAGE (or PATH/test/…, or split_names.h), or
//   PATH/CLASS/…/IMAGE: training images alone
//
// Images are files that end with .jpg, .jpeg or .png in any case; links are followed. Classes are the folders of the
// training set, sorted by the bytes of their names, which need not be UTF-8. InvalidArgument where one of them, and
// no other, holds `train`, and a test folder too or no folder stands beside it: the folder above a set was named.
#ifndef COLONNADE_DATA_IMAGE_FOLDER_H_
#define COLONNADE_DATA_IMAGE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/sample_set.h"

namespace colonnade::data {

// Returns whether a path is a folder that holds a folder.
bool IsImageFolder(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleSet>> OpenImageFolder(const std::string& path, SplitOf split,
                                                           const DatasetOptions& options);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_IMAGE_FOLDER_H_
