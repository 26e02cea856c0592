#include "data/batch_ring.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/steady_now.h"

namespace colonnade::data {
namespace {

// Samples that a worker takes at once have so many bytes: taking costs a lock, which small images would feel.
constexpr int64_t kBytesAtOnce = 64 * 1024;

}  // namespace

// What the workers share with the reader; it lives as long as the last of them.
struct BatchRing::Shared {
  struct Worker {
    WorkerClock clock;
    bool has_ended = false;
  };

  // Positions [begin, end) of batch number `batch`.
  struct Claim {
    int64_t batch = 0, begin = 0, end = 0;
  };

  Shared(const RingOptions& options, Fill fill, NameOf name_of)
      : options(options), fill(std::move(fill)), name_of(std::move(name_of)), workers(options.threads) {}

  const RingOptions options;
  const Fill fill;
  const NameOf name_of;
  std::deque<Worker> workers;

  mutable std::mutex mutex;
  std::condition_variable work, progress;  // for workers, for the reader
  std::atomic<bool> abandons{false};       // samples in work are not needed any more
  bool stops = false, is_running = false;
  int working = 0;          // claims that are being filled
  int64_t first = 0;        // position of batch 0
  int64_t count = 0;        // samples in a batch
  int64_t head = 0;         // number of the batch that is read next
  int64_t next_sample = 0;  // to be claimed: batch number · count + place in it
  std::vector<Batch> ring;
  absl::Duration waited;
  absl::Time began = absl::InfiniteFuture();

  Batch& BatchOf(int64_t number) { return ring[static_cast<size_t>(number % options.depth)]; }
  bool HasWork() const { return is_running && next_sample / count < head + options.depth; }

  void Work(Worker& worker);
  Claim Take();
  void FillAll(const Claim& claim, WorkerClock& clock);
  void Stop();
  absl::Status Reserve(int64_t samples);
  absl::Status AwaitProgress(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there);
  absl::Status Restart(std::unique_lock<std::mutex>& lock, int64_t position, int64_t samples);
  absl::Duration Tick() const { return std::clamp(options.timeout / 8, absl::Milliseconds(1), absl::Seconds(1)); }
  absl::Status Hangs(int64_t sample, absl::Duration age) const;
};

BatchRing::Shared::Claim BatchRing::Shared::Take() {
  const int64_t at_once = std::clamp<int64_t>(kBytesAtOnce / std::max<int64_t>(options.sample_bytes, 1), 1,
                                              std::max<int64_t>(count / (4 * options.threads), 1));
  const int64_t begin = next_sample % count, end = std::min(begin + at_once, count);
  const Claim claim{next_sample / count, begin, end};
  if (begin == 0) {
    Batch& batch = BatchOf(claim.batch);
    std::fill(batch.samples.begin(), batch.samples.end(), Filled{});
    batch.missing = count;
  }
  next_sample += end - begin;
  return claim;
}

void BatchRing::Shared::FillAll(const Claim& claim, WorkerClock& clock) {
  Batch& batch = BatchOf(claim.batch);
  for (int64_t i = claim.begin; i < claim.end && !abandons.load(std::memory_order_relaxed); ++i) {
    const absl::Span<uint8_t> pixels(batch.pixels.data() + i * options.sample_bytes, options.sample_bytes);
    try {
      fill(clock, first + claim.batch * count + i, pixels, batch.samples[i]);
    } catch (const std::bad_alloc&) {
      batch.samples[i].error = absl::ResourceExhaustedError("there is no memory left to read a sample");
    } catch (const std::exception& error) {
      batch.samples[i].error = absl::InternalError(absl::StrCat("reading a sample: ", error.what()));
    }
  }
}

void BatchRing::Shared::Work(Worker& worker) {
  std::unique_lock lock(mutex);
  while (true) {
    worker.clock.Start(-1);
    work.wait(lock, [&] { return stops || HasWork(); });
    worker.clock.Lap(Stage::kIdle);
    if (stops) break;
    const Claim claim = Take();
    ++working;
    lock.unlock();
    FillAll(claim, worker.clock);
    lock.lock();
    --working;
    const bool is_complete = (BatchOf(claim.batch).missing -= claim.end - claim.begin) == 0;
    if (is_complete || !is_running) progress.notify_all();
  }
  worker.has_ended = true;
  progress.notify_all();
}

absl::Status BatchRing::Shared::Hangs(int64_t sample, absl::Duration age) const {
  return absl::DataLossError(
      absl::StrFormat("%s: expected it read and decoded within %s, found an input thread at work on it for %s; is its file "
                      "system stuck?",
                      name_of(sample), absl::FormatDuration(options.timeout),
                      absl::FormatDuration(absl::Trunc(age, absl::Milliseconds(1)))));
}

// Time counts as waited tick by tick, so that a process that was stopped and continued is not taken for one that hangs.
absl::Status BatchRing::Shared::AwaitProgress(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there) {
  absl::Duration ticked;
  while (!progress.wait_for(lock, absl::ToChronoNanoseconds(Tick()), is_there)) {
    ticked += Tick();
    if (ticked < options.timeout) continue;
    for (const Worker& worker : workers) {
      const int64_t sample = worker.clock.sample();
      const absl::Duration age = worker.clock.Age();
      if (sample >= 0 && age >= options.timeout) return Hangs(sample, age);
    }
  }
  return absl::OkStatus();
}

// Workers allocate nothing for a batch, since nobody could answer them where there is no memory.
absl::Status BatchRing::Shared::Reserve(int64_t samples) {
  try {
    ring.resize(options.depth);
    for (Batch& batch : ring) {
      batch.pixels.resize(samples * options.sample_bytes);
      batch.samples.resize(samples);
      batch.missing = samples;
    }
  } catch (const std::bad_alloc&) {
    ring.clear();
    return absl::ResourceExhaustedError(
        absl::StrFormat("there is no memory for %d batches of %d samples of %d bytes; smaller batches, or fewer read ahead "
                        "(prefetch), take less",
                        options.depth, samples, options.sample_bytes));
  }
  return absl::OkStatus();
}

absl::Status BatchRing::Shared::Restart(std::unique_lock<std::mutex>& lock, int64_t position, int64_t samples) {
  is_running = false;
  abandons = true;
  const absl::Status status = AwaitProgress(lock, [&] { return working == 0; });
  abandons = false;
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(Reserve(samples));
  first = position;
  count = samples;
  head = next_sample = 0;
  is_running = true;
  work.notify_all();
  return absl::OkStatus();
}

void BatchRing::Shared::Stop() {
  const std::lock_guard lock(mutex);
  stops = abandons = true;
  work.notify_all();
}

// The destructor of the ring ends what was started, whatever fails.
absl::StatusOr<std::unique_ptr<BatchRing>> BatchRing::Create(const RingOptions& options, Fill fill, NameOf name_of) {
  std::unique_ptr<BatchRing> ring(new BatchRing(std::make_shared<Shared>(options, std::move(fill), std::move(name_of))));
  std::string why;
  try {
    ring->threads_.reserve(options.threads);
    for (Shared::Worker& worker : ring->shared_->workers) {
      ring->threads_.emplace_back([shared = ring->shared_, &worker] { shared->Work(worker); });
    }
  } catch (const std::system_error& error) {
    why = error.code().message();
  } catch (const std::bad_alloc&) {
    why = "there is no memory left";
  }
  if (!ring->threads_.empty()) return ring;
  return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread to read samples: ", why));
}

BatchRing::~BatchRing() {
  shared_->Stop();
  for (size_t i = 0; i < threads_.size(); ++i) {
    const Shared::Worker& worker = shared_->workers[i];
    std::unique_lock lock(shared_->mutex);
    const auto has_ended = [&] { return worker.has_ended; };
    while (!shared_->progress.wait_for(lock, absl::ToChronoNanoseconds(shared_->Tick()), has_ended)) {
      if (worker.clock.Age() >= shared_->options.timeout) break;
    }
    const bool ended = worker.has_ended;
    lock.unlock();
    ended ? threads_[i].join() : threads_[i].detach();
  }
}

absl::StatusOr<const Batch*> BatchRing::Wait(int64_t position, int64_t count) {
  Shared& ring = *shared_;
  std::unique_lock lock(ring.mutex);
  const bool follows = ring.is_running && ring.count == count && ring.first + ring.head * count == position;
  if (!follows) RETURN_IF_ERROR(ring.Restart(lock, position, count));
  const absl::Time begin = base::SteadyNow();
  Batch& batch = ring.BatchOf(ring.head);
  RETURN_IF_ERROR(ring.AwaitProgress(lock, [&] { return batch.missing == 0; }));
  const absl::Time end = base::SteadyNow();
  if (ring.began == absl::InfiniteFuture()) {
    ring.began = end;  // nobody can be ahead of the first batch
  } else {
    ring.waited += end - begin;
  }
  return &batch;
}

void BatchRing::Release() {
  const std::lock_guard lock(shared_->mutex);
  shared_->BatchOf(shared_->head).missing = shared_->count;
  ++shared_->head;
  shared_->work.notify_all();
}

StageTimes BatchRing::Times() const {
  StageTimes times;
  for (const Shared::Worker& worker : shared_->workers) worker.clock.AddTo(times);
  const std::lock_guard lock(shared_->mutex);
  times.waited = shared_->waited;
  times.elapsed = std::max(base::SteadyNow() - shared_->began, absl::ZeroDuration());
  return times;
}

}  // namespace colonnade::data
