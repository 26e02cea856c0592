// Data sets that are read into memory whole, by name or path; formats.h opens those of any format.
//
//   digits      1,797 real 8x8 digits that are part of the program (data/digits/README.md)
//   synthetic   random images of any shape, whose mean depends on their class
//   a folder    MNIST's four files, plain or .gz: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…
#ifndef COLONNADE_DATA_DATASET_H_
#define COLONNADE_DATA_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image_set.h"

namespace colonnade::data {

enum class SplitOf { kTrain, kTest };

// The shape of synthetic data, how many classes labels may have (0: as the data has them), and how many pixels of value 0
// are added on each side of each image: PipelineOptions::border of as many keeps them out of mean and deviation. Folders
// that are test images alone are numbered by `class_names`, where all are among those.
struct DatasetOptions {
  program::Shape synthetic_shape = {3, 32, 32};
  int64_t synthetic_classes = 10;
  int64_t classes = 0;
  std::vector<std::string> class_names{};
  int64_t pad = 0;
  bool skip_damaged = false;  // of record files (record_io.h): what is damaged is left out and counted
};

// Adds `pad` pixels of value 0 on each side of each image, and says so in the name.
void PadImages(int64_t pad, ImageSet& set);

// Reads a split into memory. NotFound naming what was looked for where a file is missing; InvalidArgument where its contents
// are wrong, or the shape or number of classes of synthetic data.
absl::StatusOr<ImageSet> OpenDataset(const std::string& spec, SplitOf split, const DatasetOptions& options);

// Returns whether a folder has one of the files of a split as MNIST names them, be it a link to nothing.
bool HasIdxFiles(const std::string& folder, SplitOf split);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_DATASET_H_
