// Data sets by name or path, in every format that is known: a table, so that a format is a file of its own and a row.
// docs/data.md shows how each is laid out.
#ifndef COLONNADE_DATA_FORMATS_H_
#define COLONNADE_DATA_FORMATS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "data/sample_set.h"

namespace colonnade::data {

struct Format {
  const char* name;
  const char* looks_like;                       // "a folder with …", for messages
  bool (*recognises)(const std::string& spec);  // from names alone; nothing is opened
  absl::StatusOr<std::unique_ptr<SampleSet>> (*opens)(const std::string& spec, SplitOf split, const DatasetOptions& options);
};

// Returns all formats; the first that recognises a path opens it.
absl::Span<const Format> Formats();

// Opens a split. NotFound where there is no such path, or nothing known in it: the message lists what was looked for.
// InvalidArgument or DataLoss where what is there is wrong or cannot be read, InvalidArgument where synthetic data are to be
// of no image's shape, FailedPrecondition where an option is not for this format. One of NoSplit's (data/no_split.h) where
// the set is there and has no images of the split. A test set that does not name its classes has `options.classes` of them:
// those of the training set.
absl::StatusOr<std::unique_ptr<SampleSet>> OpenSamples(const std::string& spec, SplitOf split,
                                                       const DatasetOptions& options);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_FORMATS_H_
