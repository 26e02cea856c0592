// Tar archives of images: shards as WebDataset has them, or one archive of an image folder. Nothing is unpacked.
//
//   a folder with train-*.tar and val-*.tar or test-*.tar: samples by key (tar_samples.h), shard by shard, by name
//   one .tar with members .cls: training images alone, by key
//   one .tar of class folders, with train/ and val/ or test/ above them or not
#ifndef COLONNADE_DATA_WEB_DATASET_H_
#define COLONNADE_DATA_WEB_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/sample_set.h"

namespace colonnade::data {

// Packed archives (.tar.gz, .tgz and others) are recognised, too: opening them says that they are to be unpacked.
bool IsWebDataset(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleSet>> OpenWebDataset(const std::string& path, SplitOf split,
                                                          const DatasetOptions& options);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_WEB_DATASET_H_
