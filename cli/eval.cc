#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/test_json.h"
#include "cli/session/network.h"
#include "cli/session/session.h"
#include "cli/session/trained_weights.h"
#include "cli/training/evaluations.h"
#include "engine/io/weights.h"
#include "tools/trained_on.h"

namespace colonnade::cli {
namespace {

struct EvalFlags : SessionFlags {
  std::string config;
  bool json = false;
};

struct Test {
  Samples samples;
  Session session;
  std::unique_ptr<data::Pipeline> stream;
  int64_t classes = 0;  // that labels reach, of the training set too if that is read
};

// If the weights state no mean and deviation, the training set is opened and measured, and its classes are taken as well.
absl::StatusOr<Test> OpenTest(SessionFlags flags, const std::optional<tools::TrainedOn>& trained_on) {
  TakeClasses(flags.network, trained_on);
  Samples train_samples;
  if (NeedsTrainingSet(flags, trained_on)) {
    ASSIGN_OR_RETURN(train_samples, OpenTrainingSet(flags));
  }
  Test test;
  if (train_samples != nullptr) test.classes = data::LabelledClasses(*train_samples);
  const auto open = [&] { return OpenSamples(flags, data::SplitOf::kTest, train_samples.get(), ClassNamesOf(trained_on)); };
  ASSIGN_OR_RETURN(test.samples, open());
  const bool are_files = !test.samples->image_shape().has_value();
  const bool lacks_pad = LacksPad(flags.data, trained_on, test.samples.get());
  if (are_files || lacks_pad) TakePad(flags.data, trained_on);
  if (lacks_pad) {
    ASSIGN_OR_RETURN(test.samples, open());
  }
  TakeImageSize(flags.network, trained_on, test.samples.get());
  test.classes = std::max(test.classes, data::LabelledClasses(*test.samples));
  ASSIGN_OR_RETURN(test.session, OpenSession(flags, test.samples.get(), program::Mode::kEval));
  test.session.test_view = TestViewOf(trained_on);
  ASSIGN_OR_RETURN(const data::Moments moments, MomentsOf(flags, test.session, train_samples, trained_on));
  ASSIGN_OR_RETURN(test.stream, OpenStream(flags, test.session, test.samples, data::SplitOf::kTest, moments));
  return test;
}

void PrintTest(const EvalFlags& flags, const std::string& model, const engine::EvalReport& report, bool stopped) {
  const double images_per_s = static_cast<double>(report.count) / absl::ToDoubleSeconds(report.elapsed);
  if (flags.json) {
    PrintJson({{"model", model},
               {"data", flags.data.source},
               {"stopped", stopped},
               {"test", TestJson(report)},
               {"images_per_s", images_per_s}});
  } else if (report.count > 0) {
    const std::string part = stopped ? absl::StrFormat("stopped, of %s only: ", base::Counted(report.count, "image")) : "";
    PrintLine(absl::StrFormat("%stop-1 %.2f %%, top-5 %.2f %%, loss %.6f, %s, %.0f images/s", part, 100 * report.top1(),
                              100 * report.top5(), report.loss, base::Counted(report.count, "image"), images_per_s));
  }
}

// What is no error but may not be what was meant.
void SayNotesOn(const Test& test, const SessionFlags& flags, const std::optional<tools::TrainedOn>& trained_on) {
  if (NeedsTrainingSet(flags, trained_on)) {
    NoteFewerClasses(flags.network, test.session.graph, test.classes, /*advises=*/false);
  }
  if (flags.data.source == kSyntheticData) Say(kNoteOnNoise);
  if (flags.plan.batch <= test.samples->size()) return;
  Say(absl::StrFormat("note: a batch of %d is computed for %s; a --batch near that number takes less time", flags.plan.batch,
                      base::Counted(test.samples->size(), "image")));
}

absl::Status RunEval(EvalFlags flags, const std::atomic<bool>& stop, Outcome& outcome) {
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(engine::MappedWeights weights, OpenWeights(flags.weights.init));
  RETURN_IF_ERROR(TakeNetwork(flags.network, flags.weights.init, weights));
  ASSIGN_OR_RETURN(const std::optional<tools::TrainedOn> trained_on, TrainedOnOf(flags.weights.init, weights));
  ASSIGN_OR_RETURN(const Test test, OpenTest(flags, trained_on));
  const Session& session = test.session;
  ASSIGN_OR_RETURN(program::Program program,
                   partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kEval)));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Executor> executor, LoadTrained(flags, session, program, weights));
  loading.reset();
  Say(absl::StrFormat("data %s, %s", test.stream->description(), ToString(test.stream->moments())));
  SayNotesOn(test, flags, trained_on);
  WarnOfOtherClasses(trained_on, *test.samples);
  outcome.before_steps();
  ASSIGN_OR_RETURN(engine::EvalReport report, EvaluateAndShow("testing:", *executor, *test.stream, stop));
  for (const std::string& note : executor->loaded().Notes()) Warn(note);
  outcome.interrupted = stop.load();
  SaySkipped(*test.stream, *test.samples);
  PrintTest(flags, session.graph.name, report, outcome.interrupted);
  return absl::OkStatus();
}

}  // namespace

SubCommand AddEval(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome) {
  CLI::App* eval = app.add_subcommand("eval", "Tests saved weights on a data set: top-1, top-5, loss, images/s.");
  const auto flags = std::make_shared<EvalFlags>();
  AddSessionFlags(*eval, *flags);
  AddTrainedWeightsFlag(*eval, flags->weights);
  AddJsonFlag(*eval, flags->json);
  AddConfigFlag(*eval, flags->config);
  eval->footer(
      "Examples:\n  colonnade eval --data=fashion-mnist --init=lenet.safetensors\n"
      "  colonnade eval --model=two_column --data=digits --init=w.safetensors --plan=model --devices=2 --json");
  const auto run = [=, &stop, &outcome] {
    flags->data.pad_is_given = eval->count("--pad") > 0;
    return RunEval(*flags, stop, outcome);
  };
  return {.app = eval, .run = run, .keeps_results = true, .ignores_sigpipe = true};
}

}  // namespace colonnade::cli
