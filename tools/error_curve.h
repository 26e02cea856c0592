// The error of a training by update, as the paper's figure draws it.
#ifndef COLONNADE_TOOLS_ERROR_CURVE_H_
#define COLONNADE_TOOLS_ERROR_CURVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace colonnade::tools {

// The share of test digits that were wrong after so much training.
struct ErrorPoint {
  double epochs = 0, seconds = 0;  // of training, tests left out
  double error = 0;
};
// Trains two_column on the embedded digits, under a named plan on CPU devices. Returns its errors before training, after
// every `every` steps, and after the last.
absl::StatusOr<std::vector<ErrorPoint>> ErrorByUpdate(const std::string& plan, int devices, int64_t steps, int64_t every,
                                                      int64_t batch);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_ERROR_CURVE_H_
