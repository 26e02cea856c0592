// The most that a device can do, measured with Programs of one task that every device of a backend runs at once.
#ifndef COLONNADE_TOOLS_CEILINGS_H_
#define COLONNADE_TOOLS_CEILINGS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "program/types.h"

namespace colonnade::tools {

// The ceilings of one device while all are at work.
struct Ceilings {
  double flops_per_sec = 0;  // of the fastest matrix product
  int64_t side = 0;          // of its three matrices
  double bytes_per_sec = 0;  // read and written by the sum of two arrays that no cache holds
  int64_t array_bytes = 0;   // of each of the three arrays
};

// Measures the ceilings in some seconds. Products are of `dtype`, sums of fp32. REQUIRES: `backend` times tasks.
absl::StatusOr<Ceilings> MeasureCeilings(engine::Backend& backend, program::DType dtype);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_CEILINGS_H_
