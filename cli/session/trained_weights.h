// Weights that a run has left, on devices that evaluate them.
#ifndef COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_
#define COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/command_line/flags.h"
#include "cli/session/session.h"
#include "data/sample_set.h"
#include "engine/executor.h"
#include "engine/io/weights.h"
#include "program/program.h"
#include "tools/trained_on.h"

namespace colonnade::cli {

// Opens the weights of --init, which `init` is. Where that is a checkpoint, or a folder of them, the error says which file
// has its weights.
absl::StatusOr<engine::MappedWeights> OpenWeights(const std::string& init);

// Takes the network that the weights state where there is no --model. FailedPrecondition where they state none.
absl::Status TakeNetwork(NetworkFlags& flags, const std::string& init, const engine::MappedWeights& weights);

// Returns what the weights of --init state of their training; nothing where they state nothing. InvalidArgument where that
// is damaged.
absl::StatusOr<std::optional<tools::TrainedOn>> TrainedOnOf(const std::string& init, const engine::MappedWeights& weights);
// Whether the training set is to be measured, since neither flags nor weights say mean and deviation of the pixels.
bool NeedsTrainingSet(const SessionFlags& flags, const std::optional<tools::TrainedOn>& trained_on);
// Returns those that the weights state, else those of `train`, as MeasureMoments. InvalidArgument where the weights' are of
// other channels than the network's images have.
absl::StatusOr<data::Moments> MomentsOf(const SessionFlags& flags, Session& session, const Samples& train,
                                        const std::optional<tools::TrainedOn>& trained_on);
std::vector<std::string> ClassNamesOf(const std::optional<tools::TrainedOn>& trained_on);  // none where it is absent
// Take what the weights state, where flags leave it open and --model is of the zoo: the number of classes; channels and size
// of the images, unless those of `samples`, which may be null, have one shape.
void TakeClasses(NetworkFlags& flags, const std::optional<tools::TrainedOn>& trained_on);
void TakeImageSize(NetworkFlags& flags, const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet* samples);
// Whether `samples`, which may be null, have one size that lacks the pad the weights state, where --pad is not given.
bool LacksPad(const DataFlags& flags, const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet* samples);
void TakePad(DataFlags& flags, const std::optional<tools::TrainedOn>& trained_on);  // where --pad is not given
// Returns what tests saw in training; nothing where that is not stated.
std::optional<tools::TestView> TestViewOf(const std::optional<tools::TrainedOn>& trained_on);
// Warns where a class of `samples` has another name than in the training of the weights.
void WarnOfOtherClasses(const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet& samples);

// Writes the weights of --init to all layers but the new ones; an error names that file and says what may help.
absl::Status TakeWeights(const SessionFlags& flags, absl::Span<const engine::TensorView> weights,
                         engine::LoadedProgram& loaded, const std::set<std::string>& new_layers = {});

// Returns an executor of `program`, which must outlive it, on the devices that --backend names, with the weights of --init;
// prints the first lines of the command. Errors: ResourceExhausted where the memory does not suffice, else those of
// OpenBackend and TakeWeights.
absl::StatusOr<std::unique_ptr<engine::Executor>> LoadTrained(const SessionFlags& flags, const Session& session,
                                                              const program::Program& program,
                                                              const engine::MappedWeights& weights);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_TRAINED_WEIGHTS_H_
