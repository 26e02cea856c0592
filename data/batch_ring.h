// Batches that worker threads fill ahead of the one that is read.
//
// `depth` batches live at once: the one that is read and those that are filled meanwhile. Samples are handed to the workers
// in the order of the stream; a batch is read when its last sample is there. Thread rule: one thread reads; the workers are
// the ring's own, and there is no fork.
#ifndef COLONNADE_DATA_BATCH_RING_H_
#define COLONNADE_DATA_BATCH_RING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "data/stage_times.h"

namespace colonnade::data {

// What became of one position of the stream.
struct Filled {
  int32_t label = -1;          // −1: padding
  uint64_t digest = 0;         // of the sample and how it is seen
  absl::Status skipped;        // why the sample that belongs here is not here; not ok where it is not
  int32_t skipped_label = -1;  // its class
  absl::Status error;          // why there is no image at all
};

struct Batch {
  std::vector<uint8_t> pixels;
  std::vector<Filled> samples;
  int64_t missing = 0;  // samples that are not there yet
};

struct RingOptions {
  int threads = 1, depth = 2;
  int64_t sample_bytes = 0;
  absl::Duration timeout = absl::Seconds(60);  // of one sample
};

class BatchRing {
 public:
  // Fills one position; called by many threads. It starts `clock` with the sample that it works on.
  using Fill = std::function<void(WorkerClock& clock, int64_t position, absl::Span<uint8_t> pixels, Filled& filled)>;
  using NameOf = std::function<std::string(int64_t sample)>;  // for messages

  // Starts as many of the threads as the system gives; ResourceExhausted where it gives none.
  static absl::StatusOr<std::unique_ptr<BatchRing>> Create(const RingOptions& options, Fill fill, NameOf name_of);
  // Waits for the samples that are being worked on, but for no longer than the timeout: a thread that hangs in a read is
  // left behind, with all that it uses.
  ~BatchRing();
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  // Returns the batch of `count` samples from `position` on, to be read until Release or the next Wait. Where it is not the
  // one that follows the last one, the ring begins anew with it. DataLoss naming the sample at which a worker hangs;
  // ResourceExhausted where there is no memory for the batches.
  absl::StatusOr<const Batch*> Wait(int64_t position, int64_t count);
  void Release();

  StageTimes Times() const;

 private:
  struct Shared;

  explicit BatchRing(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_BATCH_RING_H_
