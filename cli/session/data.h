// The data that the flags ask for: samples where they lie, and the streams of them that training and tests read.
#ifndef COLONNADE_CLI_SESSION_DATA_H_
#define COLONNADE_CLI_SESSION_DATA_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command_line/flags.h"
#include "data/formats.h"
#include "data/pipeline.h"
#include "data/sample_set.h"
#include "nlohmann/json.hpp"
#include "program/types.h"
#include "tools/trained_on.h"

namespace colonnade::cli {

using Samples = std::shared_ptr<const data::SampleSet>;

// Opens the set that --data names. A test set has the classes of `train_set`, where that is given; else folders of one are
// numbered by `class_names`, as DatasetOptions says.
absl::StatusOr<Samples> OpenSamples(const SessionFlags& flags, data::SplitOf split,
                                    const data::SampleSet* train_set = nullptr,
                                    const std::vector<std::string>& class_names = {});

// The --data that is random images, and the note that accuracies on them mean nothing.
inline constexpr char kSyntheticData[] = "synthetic";
inline constexpr char kNoteOnNoise[] =
    "note: synthetic images are noise, so that accuracies mean nothing; --data=digits or a path reads images";

// Says what is to be noted of the set that was opened.
void SayNotesOf(const data::SampleSet& set);

// Opens the training set for what a test or a prediction takes of it: mean and deviation of the pixels, names of the
// classes. NotFound, with what to do, where --data has none.
absl::StatusOr<Samples> OpenTrainingSet(const SessionFlags& flags);

// Returns what is done to images of `set` before they reach a network that takes them as `shape` ({C, H, W}). In training
// --augment says it; with `shifts`, as the zoo's networks for digits have it, "standard" moves images by up to a pixel.
// In a test, images in files get the frame of --pad, which sets in memory have already, and are seen as `view` says; where
// it is absent, those of up to 64 pixels whole and others in the middle.
absl::StatusOr<data::AugmentOptions> RecipeFor(const DataFlags& flags, const data::SampleSet& set,
                                               const program::Shape& shape, data::SplitOf split, bool shifts,
                                               std::optional<tools::TestView> view = std::nullopt);

// Returns the number of threads that read and augment: --data-threads, or as many as there are cores.
int DataThreads(const DataFlags& flags);
int64_t JpegIndexBytes(const DataFlags& flags);  // of each set that is open

// Returns a text that identifies `set` wherever it lies: count, shape, classes, and an XXH3 of the labels and of the pixels
// or, for a set in files, of the files' names (OpenStreams adds what was measured of their pixels).
absl::StatusOr<std::string> IdentityOf(const data::SampleSet& set);

// Returns "mean 0.3, std 0.4", per channel: the mean is subtracted from pixel values of 0..1, and the result divided by std.
std::string ToString(const data::Moments& moments);

// Returns {"waited_share": 0.03, "images": …, "thread_seconds": {…by stage}}.
nlohmann::ordered_json InputJson(const data::StageTimes& times);

// Says which samples were skipped since the last call.
void SaySkipped(data::Pipeline& stream, const data::SampleSet& set);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_DATA_H_
