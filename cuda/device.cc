#include "cuda/device.h"

namespace colonnade::cuda {

absl::Status Fence(Calls& calls, const Device& device) {
  absl::Status status;
  for (int l = 0; l < program::kLaneCount; ++l) status.Update(calls.Record(device.passed[l], device.streams[l]));
  for (int l = 0; l < program::kLaneCount; ++l) {
    for (int other = 0; other < program::kLaneCount; ++other) {
      if (other != l) status.Update(calls.Wait(device.streams[l], device.passed[other]));
    }
  }
  return status;
}

absl::Status Drain(Calls& calls, const Device& device) {
  absl::Status status;
  for (int l = 0; l < program::kLaneCount; ++l) {
    status.Update(calls.Record(device.passed[l], device.streams[l]));
    if (status.ok()) status.Update(calls.Synchronize(device.passed[l]));
  }
  return status;
}

// Streams and events of a device that was not made whole are null.
Resources::~Resources() {
  books = {};
  for (const Device& device : devices) {
    for (Event event : device.passed) {
      if (event != nullptr) calls->Destroy(device.gpu, event);
    }
    for (const Stream& stream : device.streams) {
      if (stream.handle != nullptr) calls->Destroy(stream);
    }
  }
}

}  // namespace colonnade::cuda
