#include "cli/training/train_setup.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "cli/session/network.h"
#include "cli/session/optimizer.h"
#include "cli/session/trained_weights.h"
#include "data/class_names.h"
#include "data/no_split.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "layers/traits.h"
#include "partition/lower.h"
#include "tools/network_file.h"
#include "tools/trained_on.h"

namespace colonnade::cli {
namespace {

// The test set beside a training set; null, with a note, where there is none and no test is asked for.
absl::StatusOr<Samples> OpenTestSamples(const TrainFlags& flags, const data::SampleSet& train) {
  absl::StatusOr<Samples> test = OpenSamples(flags, data::SplitOf::kTest, &train);
  if (!data::IsNoSplit(test.status())) return test;
  for (const auto& [flag, value] :
       {std::pair("--eval-every", flags.record.eval_every), std::pair("--until", flags.record.until)}) {
    if (!value.empty()) return absl::Status(test.status().code(), absl::StrCat(flag, ": ", test.status().message()));
  }
  Say(absl::StrCat("note: no test at the end: ", test.status().message()));
  return Samples();
}

// What weights state of the training and of their network.
absl::StatusOr<engine::Metadata> MetadataOf(const TrainFlags& flags, const Session& session, const data::SampleSet& set,
                                            const data::Moments& moments) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, data::NameClasses(set.class_names(), {}, session.graph.classes()));
  const program::Shape& image = session.graph.nodes[0].sample_shape;
  ASSIGN_OR_RETURN(const data::AugmentOptions test_recipe,
                   RecipeFor(flags.data, set, image, data::SplitOf::kTest, /*shifts=*/false));
  const bool sees_middle = test_recipe.cropping == data::Cropping::kCentre;
  engine::Metadata metadata = tools::ToMetadata({.image = image,
                                                 .class_names = std::move(names),
                                                 .moments = moments,
                                                 .pad = flags.data.pad,
                                                 .view = sees_middle ? tools::TestView::kMiddle : tools::TestView::kWhole});
  metadata.merge(tools::NetworkMetadata({session.model, session.graph}));
  return metadata;
}

void WarnOfConstants(const std::vector<std::string>& layers, absl::string_view why) {
  if (layers.empty()) return;
  const std::string others = layers.size() == 1 ? "" : absl::StrFormat(" and %d more", layers.size() - 1);
  Warn(absl::StrFormat("layer \"%s\"%s: %s", layers[0], others, why));
}

}  // namespace

absl::StatusOr<Streams> OpenStreams(const TrainFlags& flags, Session& session) {
  Streams streams;
  ASSIGN_OR_RETURN(streams.train_samples, OpenSamples(flags, data::SplitOf::kTrain));
  const data::SampleSet& set = *streams.train_samples;
  ASSIGN_OR_RETURN(streams.test_samples, OpenTestSamples(flags, set));
  const Samples& test = streams.test_samples;
  if (test != nullptr && test->image_shape() != set.image_shape()) {
    const auto shape_of = [](const data::SampleSet& s) {
      return s.image_shape().has_value() ? program::ToString(*s.image_shape()) : std::string("of any size");
    };
    return absl::InvalidArgumentError(absl::StrFormat("%s: expected images %s as in %s, found %s", test->name(),
                                                      shape_of(set), set.name(), shape_of(*test)));
  }
  ASSIGN_OR_RETURN(session, OpenSession(flags, &set));
  ASSIGN_OR_RETURN(streams.identity, IdentityOf(set));
  ASSIGN_OR_RETURN(streams.train, OpenStream(flags, session, streams.train_samples, data::SplitOf::kTrain));
  // Files are known by their names alone; pixels that are others have other moments.
  const bool are_files = !set.image_shape().has_value();
  if (are_files && MeasuresPixels(flags.data)) absl::StrAppend(&streams.identity, ", ", ToString(streams.train->moments()));
  if (test != nullptr) {
    ASSIGN_OR_RETURN(streams.test, OpenStream(flags, session, test, data::SplitOf::kTest, streams.train->moments()));
  }
  ASSIGN_OR_RETURN(streams.metadata, MetadataOf(flags, session, set, streams.train->moments()));
  return streams;
}

void SayAllSkipped(const Streams& streams) {
  SaySkipped(*streams.train, *streams.train_samples);
  if (streams.test != nullptr) SaySkipped(*streams.test, *streams.test_samples);
}

void WarnOfSingleValues(const layers::LayerGraph& graph, int64_t batch) {
  std::vector<std::string> over_samples, over_channels;
  for (const layers::LayerNode& node : graph.nodes) {
    const layers::LayerTraits traits = layers::TraitsOf(node.layer);
    if (traits.normalises_channels && node.sample_shape[0] == 1) over_channels.push_back(node.name);
    if (!traits.normalises_samples) continue;
    const int64_t samples = traits.samples_per_group > 0 ? traits.samples_per_group : batch;
    if (samples * program::ElementCount(node.sample_shape) / node.sample_shape[0] == 1) over_samples.push_back(node.name);
  }
  WarnOfConstants(over_samples,
                  "a batch normalisation over one value of each channel makes constants of what it reads; use a larger "
                  "--batch, larger groups (--batch-norm=ghost:N), or larger images");
  WarnOfConstants(over_channels,
                  "a layer normalisation over one channel makes a constant of what it reads; normalise more channels, or "
                  "leave it out");
}

absl::Status InitializeFrom(const TrainFlags& flags, TrainSetup& run) {
  if (flags.weights.init.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::MappedWeights weights, OpenWeights(flags.weights.init));
  const std::set<std::string> heads = run.session.graph.Heads();
  const absl::Status taken =
      TakeWeights(flags, weights.tensors, run.train->loaded(), flags.weights.replace_head ? heads : std::set<std::string>());
  const bool is_of_head = absl::c_any_of(run.train_program.parameters, [&](const program::Parameter& parameter) {
    return heads.contains(parameter.layer) && absl::StrContains(taken.message(), absl::StrCat("\"", parameter.name, "\""));
  });
  if (is_of_head && !flags.weights.replace_head) {
    return absl::Status(taken.code(), absl::StrCat(taken.message(), "; --replace-head begins with a new last layer"));
  }
  return taken;
}

absl::Status Prepare(const TrainFlags& flags, bool has_test, TrainSetup& run) {
  auto lower = [&](program::Mode mode, program::Program& program, bool reads_averages = false) -> absl::Status {
    partition::LowerOptions options = LowerOptionsOf(flags, run.session, mode);
    options.reads_averages = reads_averages;
    ASSIGN_OR_RETURN(program, partition::Lower(run.session.graph, run.session.plan, options));
    return absl::OkStatus();
  };
  auto load = [&](const program::Program& program, std::unique_ptr<engine::Executor>& executor) -> absl::Status {
    ASSIGN_OR_RETURN(executor, engine::Executor::Create(program, *run.backend));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(lower(program::Mode::kTrain, run.train_program));
  RETURN_IF_ERROR(lower(program::Mode::kEval, run.eval_program));
  if (flags.optimizer.ema > 0) RETURN_IF_ERROR(lower(program::Mode::kEval, run.average_program, /*reads_averages=*/true));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, run.session.plan.mesh.device_count(), run.session.threads_per_device,
                               /*times_tasks=*/!flags.trace.empty()));
  run.backend = std::move(backend);
  if (run.backend->name() == "cpu") {
    std::vector<const program::Program*> programs = {&run.train_program, &run.eval_program};
    if (flags.optimizer.ema > 0) programs.push_back(&run.average_program);
    HostUse beside{.samples_ahead = flags.data.prefetch * run.train_program.global_batch};
    if (has_test) beside.samples_ahead += flags.data.prefetch * run.eval_program.global_batch;
    if (!flags.checkpoint.folder.empty()) {
      beside.bytes = engine::StateBytes(run.train_program);
      beside.purpose = "the copy of the state for --checkpoint";
    }
    RETURN_IF_ERROR(CheckMemory(flags, run.session, programs, /*backends=*/1, beside));
  }
  RETURN_IF_ERROR(load(run.train_program, run.train));
  RETURN_IF_ERROR(load(run.eval_program, run.eval));
  if (flags.optimizer.ema > 0) RETURN_IF_ERROR(load(run.average_program, run.average));
  return engine::InitializeParameters(run.train->loaded(), flags.seed);
}

}  // namespace colonnade::cli
