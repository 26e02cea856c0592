#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/test_json.h"
#include "cli/session/network.h"
#include "cli/session/session.h"
#include "cli/session/trained_weights.h"
#include "cli/training/evaluations.h"
#include "engine/io/weights.h"

namespace colonnade::cli {

namespace {

struct Test {
  Samples samples;
  Session session;
  std::unique_ptr<data::Pipeline> stream;
};

// Mean and deviation are those of the training set, as in training; so are the classes.
absl::StatusOr<Test> OpenTest(const Flags& flags) {
  Samples train_samples;
  if (MeasuresPixels(flags)) {
    ASSIGN_OR_RETURN(train_samples, OpenTrainingSet(flags));
  }
  Test test;
  ASSIGN_OR_RETURN(test.samples, OpenSamples(flags, data::SplitOf::kTest, train_samples.get()));
  ASSIGN_OR_RETURN(test.session, OpenSession(flags, test.samples.get(), program::Mode::kEval));
  ASSIGN_OR_RETURN(const data::Moments moments, MeasureMoments(flags, test.session, train_samples));
  ASSIGN_OR_RETURN(test.stream, OpenStream(flags, test.session, test.samples, data::SplitOf::kTest, moments));
  return test;
}

void PrintTest(const Flags& flags, const std::string& model, const engine::EvalReport& report, bool stopped) {
  const double images_per_s = static_cast<double>(report.count) / absl::ToDoubleSeconds(report.elapsed);
  if (flags.json) {
    PrintJson({{"model", model},
               {"data", flags.data},
               {"stopped", stopped},
               {"test", TestJson(report)},
               {"images_per_s", images_per_s}});
  } else if (report.count > 0) {
    const std::string part = stopped ? absl::StrFormat("stopped, of %d images only: ", report.count) : "";
    PrintLine(absl::StrFormat("%stop-1 %.2f %%, top-5 %.2f %%, loss %.6f, %d images, %.0f images/s", part,
                              100 * report.top1(), 100 * report.top5(), report.loss, report.count, images_per_s));
  }
}

// What is no error but may not be what was meant.
void SayNotes(const Flags& flags, const Test& test) {
  NoteFewerClasses(flags, test.session.graph, test.samples->classes(), /*advises=*/false);
  if (flags.batch <= test.samples->size()) return;
  Say(absl::StrFormat("note: a batch of %d is computed for %d images; a --batch near their number takes less time",
                      flags.batch, test.samples->size()));
}

}  // namespace

absl::Status RunEval(const Flags& flags, const std::atomic<bool>& stop, Outcome& outcome) {
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(engine::MappedWeights weights, OpenWeights(flags));
  ASSIGN_OR_RETURN(const Test test, OpenTest(flags));
  const Session& session = test.session;
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kEval)));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, LoadTrained(flags, session, program, weights));
  loading.reset();
  Say(absl::StrFormat("data %s, %s", test.stream->description(), ToString(test.stream->moments())));
  SayNotes(flags, test);
  outcome.before_steps();
  ASSIGN_OR_RETURN(engine::EvalReport report, EvaluateAndShow("testing:", *executor, *test.stream, stop));
  for (const std::string& note : executor->loaded().Notes()) Warn(note);
  outcome.interrupted = stop.load();
  SaySkipped(*test.stream, *test.samples);
  PrintTest(flags, session.graph.name, report, outcome.interrupted);
  return absl::OkStatus();
}

}  // namespace colonnade::cli
