// Weights to begin with: a safetensors file, or several that an index names, as Hugging Face writes them:
//
//   {"metadata": {"total_size": 97800000}, "weight_map": {"conv1.weight": "model-00001-of-00002.safetensors", …}}
//
// The files lie beside the index, whose name ends with ".index.json".
#ifndef COLONNADE_ENGINE_WEIGHTS_H_
#define COLONNADE_ENGINE_WEIGHTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/mapped_file.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"

namespace colonnade::engine {

// Tensors, and the files in which their bytes are mapped.
struct MappedWeights {
  std::vector<MappedFile> files;
  std::vector<TensorView> tensors;  // by file, then in the order of their bytes; F16 and BF16 as F32
  Metadata metadata;                // of all files; of a key that two have the text of the first
  std::vector<std::shared_ptr<const std::vector<float>>> widened;  // TensorFile::widened of all files
};

// Maps the weights at `path` and checks that all are finite, and running variances at least 0. NotFound where the file, or
// one that an index names, is missing; InvalidArgument with file, tensor, expected and found as ViewFile's, and where such
// a name leads elsewhere, or a file has more or fewer tensors than the index names for it.
absl::StatusOr<MappedWeights> MapWeights(const std::string& path);

using WeightMap = std::map<std::string, std::string>;  // from the name of a tensor to that of its file
// Reads an index. InvalidArgument where the JSON is not that of an index, a key stands twice or a file does not lie beside
// the index.
absl::StatusOr<WeightMap> WeightMapFromJson(absl::string_view json);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_WEIGHTS_H_
