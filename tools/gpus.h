// The GPUs of this machine.
#ifndef COLONNADE_TOOLS_GPUS_H_
#define COLONNADE_TOOLS_GPUS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace colonnade::tools {

struct Gpus {
  int count = 0;
  std::string name;          // of the first
  int64_t memory_bytes = 0;  // likewise
};

// Opens the first GPU and asks about all. At least one GPU, or Unavailable with the reason.
absl::StatusOr<Gpus> FindGpus();

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_GPUS_H_
