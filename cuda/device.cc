#include "cuda/device.h"

namespace colonnade::cuda {

// Tasks wait for what lands for them, so that the lanes' records imply those of the input stream.
absl::Status Fence(Calls& calls, const Device& device) {
  const auto streams = device.AllStreams();
  absl::Status status;
  for (int l = 0; l < program::kLaneCount; ++l) status.Update(calls.Record(device.passed[l], streams[l]));
  for (size_t s = 0; s < streams.size(); ++s) {
    for (size_t l = 0; l < program::kLaneCount; ++l) {
      if (l != s) status.Update(calls.Wait(streams[s], device.passed[l]));
    }
  }
  return status;
}

absl::Status Drain(Calls& calls, const Device& device) {
  const auto streams = device.AllStreams();
  absl::Status status;
  for (size_t s = 0; s < streams.size(); ++s) {
    status.Update(calls.Record(device.passed[s], streams[s]));
    if (status.ok()) status.Update(calls.Synchronize(device.passed[s]));
  }
  return status;
}

}  // namespace colonnade::cuda
