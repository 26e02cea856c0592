// CIFAR-10 and CIFAR-100 in their binary versions: records of one label (CIFAR-100: coarse, then fine) and 32 x 32 pixels,
// first all red, then all green, then all blue. Source: Krizhevsky 2009; cs.toronto.edu/~kriz/cifar.html.
//
//   a folder with data_batch_*.bin and test_batch.bin (CIFAR-10) or with train.bin and test.bin (CIFAR-100), where names
//     of classes stand in batches.meta.txt or fine_label_names.txt, one on each line, if it is there
//   one .bin file of either: a training set
#ifndef COLONNADE_DATA_CIFAR_H_
#define COLONNADE_DATA_CIFAR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"
#include "data/image_set.h"
#include "data/sample_set.h"

namespace colonnade::data {

struct CifarKind {
  int64_t label_bytes = 1;  // the last of them counts
  int64_t classes = 10;
  int64_t record_bytes() const { return label_bytes + 3 * 32 * 32; }
};
inline constexpr CifarKind kCifar10{1, 10}, kCifar100{2, 100};

// Adds the records of one file to `set`. InvalidArgument with `name`, expected and found where the size is not that of whole
// records, there are none, or a label is not below kind.classes; `set` is then as it was.
absl::Status AppendCifar(absl::string_view file, const std::string& name, const CifarKind& kind, ImageSet& set);

// Returns which of the two a file is, by its size and, where both fit, by its labels.
absl::StatusOr<CifarKind> KindOfCifar(absl::string_view file, const std::string& name);

bool IsCifar(const std::string& path);
absl::StatusOr<std::unique_ptr<SampleSet>> OpenCifar(const std::string& path, SplitOf split, const DatasetOptions& options);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_CIFAR_H_
