// Host memory between a Program and the GPUs: inputs are read where the host fills them; outputs are small, and land in
// memory of our own until the host asks for them.
#ifndef COLONNADE_CUDA_HOST_STAGING_H_
#define COLONNADE_CUDA_HOST_STAGING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "cuda/calls.h"
#include "engine/backend.h"
#include "program/program.h"

namespace colonnade::cuda {

class HostStaging {
 public:
  // All must outlive the result; `slots` are two.
  HostStaging(Calls& calls, const program::Program& program, const engine::HostSlot* slots);
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  // Makes inputs known to the GPUs, and takes memory for outputs.
  absl::Status Take();
  // Of the inputs, what the system did not let Take make known.
  int64_t refused_bytes() const { return refused_bytes_; }

  // Returns what calls read and write: the inputs of the host's slots, outputs of our own. Two.
  const engine::HostSlot* slots() const { return staged_; }
  // Gives the host the outputs of `step`. REQUIRES: synchronized.
  void DeliverOutputs(int64_t step) const;

 private:
  absl::Status RegisterInputs(const engine::HostSlot& slot);
  absl::Status TakeOutputs(engine::HostSlot& staged);
  int64_t OutputBytes(size_t output, size_t piece) const;

  Calls& calls_;
  const program::Program& program_;
  const engine::HostSlot* slots_;
  engine::HostSlot staged_[2];
  std::vector<void*> registered_, outputs_;
  int64_t refused_bytes_ = 0;
};

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_HOST_STAGING_H_
