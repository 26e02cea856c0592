// Weights as numbers.
#ifndef COLONNADE_TESTS_ENGINE_LOAD_WEIGHTS_H_
#define COLONNADE_TESTS_ENGINE_LOAD_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "engine/io/weights.h"
#include "engine/state.h"

namespace colonnade::engine {

// Reads what MapWeights maps.
inline absl::StatusOr<std::vector<NamedTensor>> LoadWeights(const std::string& path) {
  ASSIGN_OR_RETURN(MappedWeights weights, MapWeights(path));
  std::vector<NamedTensor> tensors;
  for (const TensorView& tensor : weights.tensors) tensors.push_back(AsDoubles(tensor));
  return tensors;
}

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_LOAD_WEIGHTS_H_
