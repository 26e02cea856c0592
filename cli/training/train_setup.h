// What a training is made of before it begins: its data, its network and plan, its Programs on their devices.
#ifndef COLONNADE_CLI_TRAINING_TRAIN_SETUP_H_
#define COLONNADE_CLI_TRAINING_TRAIN_SETUP_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/session/data.h"
#include "cli/session/session.h"
#include "cli/training/train_flags.h"
#include "data/pipeline.h"
#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"
#include "program/program.h"

namespace colonnade::cli {

// What --init reads and --save writes.
inline constexpr engine::StateKind kWeightsAlone[] = {engine::StateKind::kValue};

struct Streams {
  Samples train_samples, test_samples;
  std::unique_ptr<data::Pipeline> train, test;  // test: null where there is no test set
  std::string identity;
  engine::Metadata metadata;  // of the weights that are trained on them
};

// Opens the data and sets `session` to the network and plan for it.
absl::StatusOr<Streams> OpenStreams(const TrainFlags& flags, Session& session);
// Prints which samples of both sets were left out.
void SayAllSkipped(const Streams& streams);

// Its members stand in the order in which they are made.
struct TrainSetup {
  Session session;
  program::Program train_program, eval_program, average_program;
  std::unique_ptr<engine::Backend> backend;
  std::unique_ptr<engine::Executor> train, eval, average;  // average: an evaluation of the averages, if there are any
};

// Makes all but the session, with new parameters.
absl::Status Prepare(const TrainFlags& flags, bool has_test, TrainSetup& run);
// Warns where a batch normalisation has one value of each channel to normalise, or a layer normalisation one channel, which
// makes a constant of it.
void WarnOfSingleValues(const layers::LayerGraph& graph, int64_t batch);
// Applies --init and --replace-head, if they are given.
absl::Status InitializeFrom(const TrainFlags& flags, TrainSetup& run);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_TRAIN_SETUP_H_
