#include "cli/session/trained_weights.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cli/session/network.h"
#include "engine/checkpoint.h"
#include "engine/checkpoint_folder.h"
#include "engine/state.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

std::string AdviceOnFolder(absl::string_view init) {
  const std::string folder(absl::StripSuffix(init, "/")), weights = engine::FileNameOf(engine::StateKind::kValue);
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(folder) / engine::kManifestName, ignored)) {
    return absl::StrFormat("; --init=%s/%s takes the weights of this checkpoint", folder, weights);
  }
  const absl::StatusOr<std::vector<int64_t>> steps = engine::CheckpointSteps(folder);
  if (!steps.ok() || steps->empty()) return "";
  return absl::StrFormat("; --init=%s/%s takes the weights of its newest checkpoint",
                         engine::CheckpointPath(folder, steps->back()), weights);
}

}  // namespace

absl::StatusOr<engine::MappedWeights> OpenWeights(const std::string& init) {
  absl::StatusOr<engine::MappedWeights> weights = engine::MapWeights(init);
  if (weights.ok()) {
    if (weights->files.size() == 1) RETURN_IF_ERROR(engine::VerifyFileOfCheckpoint(init, weights->files[0].bytes()));
    return weights;
  }
  const std::string advice = AdviceOnFolder(init);
  return absl::Status(weights.status().code(), absl::StrCat(weights.status().message(), advice));
}

absl::StatusOr<std::optional<tools::TrainedOn>> TrainedOnOf(const std::string& init, const engine::MappedWeights& weights) {
  absl::StatusOr<std::optional<tools::TrainedOn>> trained_on = tools::TrainedOnFromMetadata(weights.metadata);
  if (!trained_on.ok()) return base::WithContext(trained_on.status(), init);
  return trained_on;
}

bool NeedsTrainingSet(const SessionFlags& flags, const std::optional<tools::TrainedOn>& trained_on) {
  return MeasuresPixels(flags.data) && !trained_on.has_value();
}

absl::StatusOr<data::Moments> MomentsOf(const SessionFlags& flags, Session& session, const Samples& train,
                                        const std::optional<tools::TrainedOn>& trained_on) {
  if (!trained_on.has_value()) return MeasureMoments(flags, session, train);
  const int64_t channels = session.graph.nodes[0].sample_shape[0];
  if (trained_on->image[0] == channels) return trained_on->moments;
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected weights trained on images of %s, as the network takes, found %d", flags.weights.init,
                      base::Counted(channels, "channel"), trained_on->image[0]));
}

std::vector<std::string> ClassNamesOf(const std::optional<tools::TrainedOn>& trained_on) {
  return trained_on.has_value() ? trained_on->class_names : std::vector<std::string>();
}

absl::Status TakeNetwork(NetworkFlags& flags, const std::string& init, const engine::MappedWeights& weights) {
  if (!flags.model.empty()) return absl::OkStatus();
  if (!tools::StatesNetwork(weights.metadata)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--model: expected a network, found none, and %s states none; name one of the zoo, or give a network file", init));
  }
  if (!tools::IsWeightsFile(init)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--model: expected a network, found none; that of %s is read from a single file alone whose name is "
                        "none of the zoo's",
                        init));
  }
  flags.model = init;
  return absl::OkStatus();
}

void TakeClasses(NetworkFlags& flags, const std::optional<tools::TrainedOn>& trained_on) {
  if (!trained_on.has_value() || tools::IsNetworkFile(flags.model) || flags.classes > 0) return;
  flags.classes = static_cast<int64_t>(trained_on->class_names.size());
}

void TakeImageSize(NetworkFlags& flags, const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet* samples) {
  const bool is_given = samples != nullptr && samples->image_shape().has_value();
  if (!trained_on.has_value() || tools::IsNetworkFile(flags.model) || is_given) return;
  const program::Shape& image = trained_on->image;
  if (flags.input_channels == 0) flags.input_channels = image[0];
  if (flags.input_size == 0 && image[1] == image[2]) flags.input_size = image[1];
}

bool LacksPad(const DataFlags& flags, const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet* samples) {
  if (!trained_on.has_value() || flags.pad_is_given || trained_on->pad == 0) return false;
  if (samples == nullptr || !samples->image_shape().has_value()) return false;
  program::Shape padded = *samples->image_shape();
  for (int axis : {1, 2}) padded[axis] += 2 * trained_on->pad;
  return padded == trained_on->image;
}

void TakePad(DataFlags& flags, const std::optional<tools::TrainedOn>& trained_on) {
  if (trained_on.has_value() && !flags.pad_is_given) flags.pad = trained_on->pad;
}

std::optional<tools::TestView> TestViewOf(const std::optional<tools::TrainedOn>& trained_on) {
  return trained_on.has_value() ? trained_on->view : std::nullopt;
}

void WarnOfOtherClasses(const std::optional<tools::TrainedOn>& trained_on, const data::SampleSet& samples) {
  if (!trained_on.has_value()) return;
  const std::vector<std::string>&of_weights = trained_on->class_names, &of_samples = samples.class_names();
  const std::optional<size_t> label = tools::FirstOtherClass(of_weights, of_samples);
  if (!label.has_value()) return;
  Warn(absl::StrFormat("class %d was \"%s\" when these weights were trained, in %s it is \"%s\"", *label, of_weights[*label],
                       samples.name(), of_samples[*label]));
}

absl::Status TakeWeights(const SessionFlags& flags, absl::Span<const engine::TensorView> weights,
                         engine::LoadedProgram& loaded, const std::set<std::string>& new_layers) {
  const absl::Status written = engine::WriteState(loaded, engine::StateKind::kValue, weights, new_layers);
  if (written.ok()) return written;
  return absl::Status(written.code(), absl::StrCat(flags.weights.init, ": ", written.message(),
                                                   AdviceOnHeads(flags.network, written.message())));
}

absl::StatusOr<std::unique_ptr<engine::Executor>> LoadTrained(const SessionFlags& flags, const Session& session,
                                                              const program::Program& program,
                                                              const engine::MappedWeights& weights) {
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(CheckMemory(flags, session, {&program}, /*backends=*/1,
                                {.samples_ahead = flags.data.prefetch * program.global_batch}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *backend));
  RETURN_IF_ERROR(TakeWeights(flags, weights.tensors, executor->loaded()));
  Say(absl::StrCat("weights ", flags.weights.init));
  SaySession(flags.backend, session, backend->name());
  return executor;
}

}  // namespace colonnade::cli
