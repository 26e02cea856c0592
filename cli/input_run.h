// How fast the input of a training is by itself: what io-bench prints and calibrate writes.
#ifndef COLONNADE_CLI_INPUT_RUN_H_
#define COLONNADE_CLI_INPUT_RUN_H_

#include <time.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/command_line/flags.h"
#include "cli/session/data.h"
#include "data/augment.h"
#include "data/pipeline.h"
#include "data/stage_times.h"

namespace colonnade::cli {

// Which images are read, and as what.
struct InputFlags {
  DataFlags data;
  int64_t size = 0, channels = 0;  // of an image; 0: the data's
  int64_t batch = 64;
};

// Returns the training set of --data, synthetic images in the shape that the flags ask for.
absl::StatusOr<Samples> OpenInput(const InputFlags& flags);

// Returns what training does to such images, at the size that the flags ask for, or their own if all are alike.
absl::StatusOr<data::AugmentOptions> InputRecipe(const InputFlags& flags, const data::SampleSet& set);

// Reads the bytes of samples once, of 2 GiB and for `most` time at most, so that no run is the first to fetch them from a
// disk.
struct FirstRead {
  int64_t bytes = 0;
  absl::Duration elapsed;
};
absl::StatusOr<FirstRead> ReadBefore(const data::SampleSet& set, absl::Duration most = absl::InfiniteDuration());

inline constexpr uint64_t kInputSeed = 1;  // of the order of the samples

absl::Duration ProcessorTime(clockid_t clock);

// What ended first: so many times all samples, or so much time.
struct InputAmount {
  int64_t epochs = 1, warm_up = 0;  // those of warm_up come before and do not count
  absl::Duration time = absl::InfiniteDuration();
};

struct InputRun {
  std::string description;  // of the data
  int threads = 0;
  int64_t count = 0, batch = 0, batch_bytes = 0;
  absl::Duration elapsed, processor;
  data::StageTimes times;
  data::JpegIndices::Kept indices;

  double images_per_s() const { return static_cast<double>(count) / absl::ToDoubleSeconds(elapsed); }
  double microseconds(data::Stage stage) const {
    return absl::ToDoubleMicroseconds(times.of(stage)) / static_cast<double>(times.images);
  }
  // If the threads did nothing but their work.
  double attainable_images_per_s() const {
    return threads * static_cast<double>(times.images) / absl::ToDoubleSeconds(times.Working());
  }
};

// Makes batches of --batch images as training would. `visit` sees each.
absl::StatusOr<InputRun> RunInput(
    const InputFlags& flags, const Samples& set, int threads, const InputAmount& amount,
    const std::function<void(const data::Batch&)>& visit = [](const data::Batch&) {});

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_INPUT_RUN_H_
