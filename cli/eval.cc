#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/evaluations.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/test_json.h"
#include "data/no_split.h"
#include "engine/error_context.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "program/status_macros.h"

namespace colonnade::cli {

absl::Status RunEval(Flags flags, const std::atomic<bool>& stop, Outcome& outcome) {
  flags.mode = "eval";
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(engine::MappedWeights weights, engine::MapWeights(flags.init));
  // Mean and deviation are those of the training set, as in training; so are the classes.
  const bool measures = flags.mean.empty() || flags.std.empty();
  Samples train_samples;
  if (measures) {
    absl::StatusOr<Samples> train = OpenSamples(flags, true);
    if (data::IsNoSplit(train.status())) {
      return absl::NotFoundError(absl::StrCat(
          train.status().message(), ", of which pixels have the mean and the deviation; --mean and --std say those"));
    }
    ASSIGN_OR_RETURN(train_samples, std::move(train));
  }
  ASSIGN_OR_RETURN(const Samples samples, OpenSamples(flags, false, train_samples.get()));
  ASSIGN_OR_RETURN(Session session, OpenSession(flags, samples.get()));
  data::Moments moments;
  if (measures) {
    ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> train, OpenStream(flags, session, train_samples, true));
    moments = train->moments();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<data::Pipeline> stream, OpenStream(flags, session, samples, false, moments));
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kEval)));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(CheckMemory(flags, session, {&program}));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, engine::Executor::Create(program, *backend));
  RETURN_IF_ERROR(
      engine::WithContext(engine::WriteState(executor->loaded(), engine::StateKind::kValue, weights.tensors), flags.init));
  loading.reset();
  PrintSession(flags, session, backend->name());
  Say(absl::StrFormat("data %s, %s", stream->description(), ToString(stream->moments())));
  ASSIGN_OR_RETURN(engine::EvalReport report, EvaluateAndShow("testing:", *executor, *stream, stop));
  for (const std::string& note : executor->loaded().Notes()) Warn(note);
  outcome.interrupted = stop.load();
  PrintSkipped(*stream, *samples);
  const double images_per_s = static_cast<double>(report.count) / absl::ToDoubleSeconds(report.elapsed);
  if (flags.json) {
    PrintJson({{"model", session.graph.name},
               {"data", flags.data},
               {"stopped", outcome.interrupted},
               {"test", TestJson(report)},
               {"images_per_s", images_per_s}});
  } else if (report.count > 0) {
    const std::string part = outcome.interrupted ? absl::StrFormat("stopped, of %d samples only: ", report.count) : "";
    std::printf("%s%s\n", part.c_str(),
                absl::StrFormat("top-1 %.2f %%, top-5 %.2f %%, loss %.6f, %d samples, %.0f images/s", 100 * report.top1(),
                                100 * report.top5(), report.loss, report.count, images_per_s)
                    .c_str());
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
