// The data that the flags ask for: samples where they lie, and the streams of them that training and tests read.
#ifndef COLONNADE_CLI_DATA_H_
#define COLONNADE_CLI_DATA_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "data/pipeline.h"
#include "data/sample_set.h"
#include "nlohmann/json.hpp"
#include "program/types.h"

namespace colonnade::cli {

using Samples = std::shared_ptr<const data::SampleSet>;

// Of --data. A test set has the classes of `train_set`, where that is given.
absl::StatusOr<Samples> OpenSamples(const Flags& flags, bool train, const data::SampleSet* train_set = nullptr);

// What --augment says: "standard", "none", or some of these with commas between:
//   pad:N            the image at the network's size, N pixels of value 0 around it, of which a part of that size is cut
//   resized[:A]      a random part of A (default 0.08) to all of the area, of random shape, resampled
//   scaled:N[-M]     the shorter side N (to M) pixels, a random part cut
//   mirror, jitter:X, lighting:X, cutout:N
// FailedPrecondition naming the part that cannot be meant.
absl::Status CheckAugment(const std::string& augment);

// One more than the largest label of the set.
int64_t ClassesOf(const data::SampleSet& set);

// What happens to images of `set` before a network that takes them as `shape` ({C, H, W}); in training as --augment says, of
// whose "standard" networks of the zoo for digits shift (`shifts`).
absl::StatusOr<data::AugmentOptions> RecipeFor(const Flags& flags, const data::SampleSet& set, const program::Shape& shape,
                                               bool train, bool shifts);

// Threads that read and augment: --data-threads, or as many as there are cores.
int DataThreads(const Flags& flags);
int64_t JpegIndexBytes(const Flags& flags);  // of each set that is open

// What `set` is, wherever it lies: count, shape, classes, and XXH3 of labels and of pixels or, where they are in files,
// their names.
absl::StatusOr<std::string> IdentityOf(const data::SampleSet& set);

// "mean 0.3, std 0.4": what is taken from and divides pixel values of 0..1, per channel.
std::string ToString(const data::Moments& moments);

// {"waited_share": 0.03, "images": …, "thread_seconds": {…by stage}}
nlohmann::ordered_json InputJson(const data::StageTimes& times);

// Samples that were skipped since the last call, on stderr.
void PrintSkipped(data::Pipeline& stream, const data::SampleSet& set);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_DATA_H_
