#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpointing.h"
#include "cli/commands.h"
#include "cli/curves.h"
#include "cli/devices.h"
#include "cli/evaluations.h"
#include "cli/forecast.h"
#include "cli/learning_rate.h"
#include "cli/optimizer.h"
#include "cli/output.h"
#include "cli/precision.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/report.h"
#include "cli/run_log.h"
#include "cli/session.h"
#include "cli/step_lines.h"
#include "cli/train_report.h"
#include "cli/verdict.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/io/weights.h"
#include "engine/state.h"
#include "program/rounding.h"
#include "program/status_macros.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

constexpr engine::StateKind kWeights[] = {engine::StateKind::kValue};

// Everything of a training run, in the order in which it is made.
struct Run {
  Session session;
  program::Program train_program, eval_program, average_program;
  std::unique_ptr<engine::Backend> backend;
  std::unique_ptr<engine::Executor> train, eval, average;  // average: an evaluation of the averages, if there are any
};

// Of weights for other classes: what the last layer with parameters had gives way to what it has been initialised with,
// which is copied to `initial`.
absl::Status ReplaceHead(const Run& run, engine::StateCopy& initial, std::vector<engine::TensorView>& weights) {
  std::set<std::string> head;
  for (const program::Parameter& p : run.train_program.parameters) {
    if (p.layer == HeadOf(run.session.graph)) head.insert(p.name);
  }
  RETURN_IF_ERROR(engine::ReadState(run.train_program, run.train->loaded(), initial, kWeights));
  std::erase_if(weights, [&](const engine::TensorView& t) { return head.contains(t.name); });
  for (const engine::TensorView& tensor : initial.views(engine::StateKind::kValue)) {
    if (head.contains(tensor.name)) weights.push_back(tensor);
  }
  return absl::OkStatus();
}

absl::Status InitializeFrom(const Flags& flags, Run& run) {
  if (flags.init.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::MappedWeights weights, engine::MapWeights(flags.init));
  engine::StateCopy initial;
  if (flags.replace_head) {
    RETURN_IF_ERROR(ReplaceHead(run, initial, weights.tensors));
  }
  RETURN_IF_ERROR(engine::WithContext(
      engine::WriteState(run.train_program, run.train->loaded(), engine::StateKind::kValue, weights.tensors), flags.init));
  return engine::StartAverages(run.train_program, run.train->loaded());
}

absl::Status Prepare(const Flags& flags, Run& run) {
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
  if (flags.ema > 0) RETURN_IF_ERROR(lower(program::Mode::kEval, run.average_program, /*reads_averages=*/true));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags, run.session.plan.mesh.device_count(), run.session.threads_per_device,
                               /*times_tasks=*/!flags.trace.empty()));
  run.backend = std::move(backend);
  if (run.backend->name() == "cpu") {
    std::vector<const program::Program*> programs = {&run.train_program, &run.eval_program};
    if (flags.ema > 0) programs.push_back(&run.average_program);
    RETURN_IF_ERROR(CheckMemory(flags, run.session, programs));
  }
  RETURN_IF_ERROR(load(run.train_program, run.train));
  RETURN_IF_ERROR(load(run.eval_program, run.eval));
  if (flags.ema > 0) RETURN_IF_ERROR(load(run.average_program, run.average));
  return engine::InitializeParameters(run.train_program, run.train->loaded(), flags.seed);
}

// Of the whole run, from its beginning or from where it goes on.
absl::StatusOr<int64_t> StepsOf(const Flags& flags, int64_t samples, const engine::RunPosition& from = {}) {
  if (flags.steps > 0 && flags.epochs > 0) {
    return absl::FailedPreconditionError("expected --steps or --epochs, found both");
  }
  if (flags.steps > 0) return flags.steps;
  const int64_t left = std::max<int64_t>((flags.epochs > 0 ? flags.epochs : 1) * samples - from.sample, 0);
  return from.step + program::CeilDiv(left, flags.batch);
}

absl::Status SaveWeights(const std::string& path, engine::Executor* executor, Outcome& outcome) {
  if (path.empty()) return absl::OkStatus();
  engine::StateCopy weights;
  RETURN_IF_ERROR(engine::ReadState(executor->program(), executor->loaded(), weights, kWeights));
  RETURN_IF_ERROR(engine::SaveTensors(path, weights.views(engine::StateKind::kValue)));
  outcome.saved = "the weights of the steps done are saved";
  return absl::OkStatus();
}

absl::Status SaveResults(const Flags& flags, const Run& run, const engine::TrainReport& report, Outcome& outcome) {
  RETURN_IF_ERROR(SaveWeights(flags.save, run.train.get(), outcome));
  RETURN_IF_ERROR(SaveWeights(flags.save_ema, run.average.get(), outcome));
  if (flags.trace.empty() || report.losses.empty()) return absl::OkStatus();
  return engine::ReplaceFile(flags.trace, engine::ToChromeJson(report.last_steps));
}

// Before anything is trained, so that nothing is lost at the end.
absl::Status CheckTrainOutputs(const Flags& flags) {
  if (!flags.save_ema.empty() && flags.ema == 0) {
    return absl::FailedPreconditionError("--save-ema: expected averages, which --ema=0.999 keeps, found none");
  }
  std::set<std::string> paths;
  for (const std::string& path : {flags.save, flags.save_ema, flags.trace, flags.curves, flags.report, LogPathOf(flags)}) {
    if (path.empty()) continue;
    if (!paths.insert(path).second) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "expected different files for --save, --save-ema, --trace, --log, --curves and --report, found %s twice", path));
    }
    RETURN_IF_ERROR(engine::CheckWritable(path));
  }
  RETURN_IF_ERROR(CheckLog(LogPathOf(flags)));
  return CheckEventFolder(flags);
}

struct Streams {
  Samples train_samples, test_samples;
  std::unique_ptr<data::Pipeline> train, test;  // test: null where there is no test set
  std::string identity;
};

// The test set beside a training set; null, with a note, where there is none and no test is asked for.
absl::StatusOr<Samples> OpenTestSamples(const Flags& flags, const data::SampleSet& train) {
  absl::StatusOr<Samples> test = OpenSamples(flags, false, &train);
  if (!absl::IsNotFound(test.status())) return test;
  for (const auto& [flag, value] : {std::pair("--eval-every", flags.eval_every), std::pair("--until", flags.until)}) {
    if (!value.empty()) return absl::Status(test.status().code(), absl::StrCat(flag, ": ", test.status().message()));
  }
  std::fprintf(stderr, "note: no test at the end: %s\n", std::string(test.status().message()).c_str());
  return Samples();
}

// The data, and the network and plan for it.
absl::StatusOr<Streams> OpenStreams(const Flags& flags, Session& session) {
  Streams streams;
  ASSIGN_OR_RETURN(streams.train_samples, OpenSamples(flags, true));
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
  ASSIGN_OR_RETURN(streams.train, OpenStream(flags, session, streams.train_samples, true));
  if (test != nullptr) {
    ASSIGN_OR_RETURN(streams.test, OpenStream(flags, session, test, false, streams.train->moments()));
  }
  return streams;
}

void PrintAllSkipped(const Streams& streams) {
  PrintSkipped(*streams.train, *streams.train_samples);
  if (streams.test != nullptr) PrintSkipped(*streams.test, *streams.test_samples);
}

// What goes on beside the steps of a run.
struct Observers {
  Checkpointing& checkpointing;
  RunLog& log;
  Evaluations& evaluations;
  SelfReport& self_report;
  StepLines& lines;
};

constexpr int64_t kFirstSteps = 50;  // after which a run says what it thinks of itself

// Tests after so many steps, and says what it found.
absl::Status EvaluateWhileTraining(int64_t steps_done, Evaluations& evaluations) {
  const size_t before = evaluations.all().size();
  RETURN_IF_ERROR(evaluations.Evaluate(steps_done));
  if (evaluations.all().size() == before) return absl::OkStatus();
  Say(absl::StrFormat("step %d: test %s", steps_done, Describe(evaluations.all().back().test)));
  return absl::OkStatus();
}

engine::TrainOptions TrainOptionsOf(const Flags& flags, const std::atomic<bool>& stop, const RunCourse& course,
                                    const Observers& observers) {
  return {.first_step = course.from.step,
          .steps = course.steps - course.from.step,
          .first_sample = course.from.sample,
          .seed = flags.seed,
          .learning_rate = course.learning_rate,
          .skips_not_finite = flags.on_not_finite == "skip",
          .stop = &stop,
          .on_step =
              [&](const engine::TrainProgress& p) {
                observers.checkpointing.AddLoss(p.loss);
                observers.log.AddStep(p);
                observers.lines.Show(p);
                observers.self_report.Add(p);
              },
          .copies = {.is_due = [&](int64_t step) { return observers.checkpointing.IsDue(step); },
                     .begin = [&](int64_t) { return observers.checkpointing.BeginCopy(); },
                     .end = [&](int64_t step) { return observers.checkpointing.Save(step); }},
          .pauses = {.is_due = [&](int64_t step) { return observers.evaluations.IsDue(step); },
                     .at = [&](int64_t step) -> absl::StatusOr<bool> {
                       observers.self_report.Interrupt();
                       RETURN_IF_ERROR(EvaluateWhileTraining(step, observers.evaluations));
                       return !observers.evaluations.reached();
                     }}};
}

// The steps that a run has left, if there are any.
absl::Status TrainFrom(const Flags& flags, const std::atomic<bool>& stop, const RunCourse& course, Run& run,
                       data::Pipeline& samples, const Observers& observers, engine::TrainReport& report) {
  const int64_t done = course.from.step;
  if (done >= course.steps) {
    Say(absl::StrFormat("%d steps are done, and no more were asked for; more --steps or --epochs go on", done));
    return absl::OkStatus();
  }
  // What was saved may have reached it.
  if (done > 0 && observers.evaluations.has_target()) {
    RETURN_IF_ERROR(EvaluateWhileTraining(done, observers.evaluations));
    if (observers.evaluations.reached()) return absl::OkStatus();
  }
  absl::StatusOr<engine::TrainReport> trained =
      engine::Train(*run.train, samples, TrainOptionsOf(flags, stop, course, observers));
  WipeOut();
  if (!trained.ok()) {
    (void)observers.checkpointing.Finish();  // the last good one is written to its end
    return trained.status();
  }
  report = *std::move(trained);
  observers.self_report.Finish(report.elapsed);
  return absl::OkStatus();
}

// The last tests, unless the run was stopped. OutOfRange where one is not finite.
absl::Status TestAtEnd(const std::atomic<bool>& stop, Run& run, data::Pipeline* samples, Evaluations& evaluations,
                       TrainResults& results) {
  if (!stop) RETURN_IF_ERROR(evaluations.Evaluate(results.steps_done()));
  if (!evaluations.all().empty() && evaluations.all().back().step == results.steps_done()) {
    results.test = evaluations.all().back().test;
  }
  if (stop || run.average == nullptr || samples == nullptr) return absl::OkStatus();
  CountProgress progress("testing the averages:");
  ASSIGN_OR_RETURN(engine::EvalReport test, engine::Evaluate(*run.average, *samples, &stop, [&](int64_t done) {
                     progress.Show(done, samples->size(), " samples");
                   }));
  if (!stop) results.test_of_averages = test;
  return absl::OkStatus();
}

StepLines LinesOf(const RunCourse& course, const Run& run, const data::Pipeline& input,
                  const absl::StatusOr<Forecast>& forecast) {
  int64_t memory = 0;
  for (int d = 0; d < run.backend->device_count(); ++d) memory = std::max(memory, run.backend->HeldBytes(d));
  return StepLines({.course = course,
                    .predicted_ms = forecast.ok() ? std::optional(absl::ToDoubleMilliseconds(forecast->step)) : std::nullopt,
                    .memory_bytes = memory,
                    .input_waited = [&input] { return input.Stages().waited; }});
}

// The weights, the timeline and the last checkpoint, as far as each was asked for.
absl::Status Keep(const Flags& flags, const Run& run, const TrainResults& results, Checkpointing& checkpointing,
                  Outcome& outcome) {
  const CountProgress progress("saving");
  absl::Status status;
  if (results.steps_done() > 0) status = SaveResults(flags, run, results.report, outcome);
  const absl::Status saved = checkpointing.Finish();
  if (saved.ok() && checkpointing.saves()) {
    outcome.saved = results.steps_done() > 0
                        ? absl::StrFormat("a checkpoint of step %d is saved; --resume goes on", results.steps_done())
                        : "no step was done; the same command with --resume begins";
  }
  status.Update(saved);
  return status;
}

}  // namespace

absl::Status RunTrain(const Flags& asked, const std::atomic<bool>& stop, Outcome& outcome) {
  RETURN_IF_ERROR(CheckTrainOutputs(asked));
  Flags flags = asked;
  Run run;
  std::optional<CountProgress> loading(std::in_place, "loading");
  ASSIGN_OR_RETURN(Streams streams, OpenStreams(flags, run.session));
  ASSIGN_OR_RETURN(flags.dtype, ChosenDtype(flags, run.session));
  RunCourse course{.batch = flags.batch, .samples = streams.train->size()};
  engine::RunFields fields;
  const auto fields_from = [&](const engine::RunPosition& from) -> absl::StatusOr<engine::RunFields> {
    course.from = from;
    ASSIGN_OR_RETURN(course.steps, StepsOf(flags, course.samples, from));
    ASSIGN_OR_RETURN(course.learning_rate, LearningRateOf(flags, run.session, course.steps));
    return fields = RunFieldsOf(flags, run.session, course.learning_rate, streams.identity);
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Checkpointing> checkpointing, Checkpointing::Open(flags, run.session, fields_from));
  RETURN_IF_ERROR(Prepare(flags, run));
  RETURN_IF_ERROR(checkpointing->MakeRoom(run.train_program));
  TrainResults results;
  ASSIGN_OR_RETURN(results.from, checkpointing->Resume(run.train_program, run.train->loaded()));
  if (!checkpointing->resumed()) {
    RETURN_IF_ERROR(InitializeFrom(flags, run));
  } else if (!flags.init.empty()) {
    Say("note: --init is not read: the run goes on with the weights of its checkpoint");
  }
  if (checkpointing->resumed() && !checkpointing->saves() && flags.save.empty() && flags.save_ema.empty()) {
    Say("note: without --checkpoint or --save nothing of what is trained here is kept");
  }
  if (course.from.step < course.steps) RETURN_IF_ERROR(checkpointing->KeepConfig());
  const absl::StatusOr<Forecast> forecast = ForecastOf(flags, run.session, run.backend->name());
  loading.reset();
  PrintFirstLines(flags, run.session, run.backend->name(),
                  absl::StrCat(streams.train->description(), ", ", ToString(streams.train->moments())), course);
  if (const int64_t classes = ClassesOf(*streams.train_samples); classes < run.session.graph.classes()) {
    const bool is_default = flags.classes == 0 && !tools::IsNetworkFile(flags.model);
    Say(absl::StrFormat("note: the network has %d classes, the data set %d%s", run.session.graph.classes(), classes,
                        is_default ? absl::StrFormat("; --classes=%d makes one of as many", classes) : ""));
  }
  Say(forecast.ok() ? absl::StrCat("predicted by machine ", forecast->machine.Title()) : forecast.status().message());
  ASSIGN_OR_RETURN(std::unique_ptr<RunLog> log,
                   RunLog::Open(flags, course, HeadJson(flags, run.session, run.backend->name(), fields, course)));
  Evaluations evaluations(flags, course, *run.eval, streams.test.get(), stop, *log);
  SelfReport self_report(flags, run.session, forecast,
                         FirstSteps(*run.train, *streams.train, std::min(kFirstSteps, course.steps - course.from.step)));
  StepLines lines = LinesOf(course, run, *streams.train, forecast);
  const absl::Status trained = TrainFrom(flags, stop, course, run, *streams.train,
                                         {*checkpointing, *log, evaluations, self_report, lines}, results.report);
  if (!trained.ok()) {
    PrintAllSkipped(streams);
    (void)WriteCurves(flags, run.session.graph.name);  // they may show why
    return trained;
  }

  // A run that was stopped is saved at once, without a test; one whose test is not finite is not kept. Where the weights
  // cannot be saved, the results are still shown.
  absl::Status status;
  if (results.steps_done() > 0) {  // it is written while the test runs
    status = checkpointing->SaveLast(results.steps_done(), run.train_program, run.train->loaded());
  }
  const absl::Status tested = TestAtEnd(stop, run, streams.test.get(), evaluations, results);
  if (absl::IsOutOfRange(tested)) return tested;
  status.Update(tested);
  status.Update(Keep(flags, run, results, *checkpointing, outcome));
  status.Update(log->status());
  status.Update(WriteCurves(flags, run.session.graph.name));
  results.stopped = outcome.interrupted = stop;
  status.Update(WriteTrainReport(flags, run.session, forecast, *run.backend, run.train_program, results, evaluations));
  PrintAllSkipped(streams);
  if (flags.json) {
    nlohmann::ordered_json json =
        ReportJson(flags, run.session, *run.backend, results, evaluations, checkpointing->Json(results.report.stood_still));
    json["input"] = InputJson(streams.train->Stages());
    json["verdict"] = self_report.Json();
    json.update(RecordJson(flags, run.session, {run.backend->name(), streams.train->moments(), streams.identity}));
    PrintJson(json);
  } else {
    PrintReport(flags, run.session, results, evaluations);
    std::printf("%s\n", data::InputLine(streams.train->Stages()).c_str());
  }
  return status;
}

}  // namespace colonnade::cli
