#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/launcher.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/report.h"
#include "cli/session/learning_rate.h"
#include "cli/session/named_files.h"
#include "cli/session/network.h"
#include "cli/session/session.h"
#include "cli/training/checkpointing.h"
#include "cli/training/curves.h"
#include "cli/training/evaluations.h"
#include "cli/training/forecast.h"
#include "cli/training/precision.h"
#include "cli/training/record.h"
#include "cli/training/run_log.h"
#include "cli/training/step_lines.h"
#include "cli/training/train_flags.h"
#include "cli/training/train_report.h"
#include "cli/training/train_setup.h"
#include "cli/training/verdict.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/state.h"
#include "program/formulas/rounding.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

// Returns the steps of the whole run, from its beginning or from where it goes on.
absl::StatusOr<int64_t> StepsOf(const TrainFlags& flags, int64_t samples, const engine::RunPosition& start = {}) {
  if (flags.steps > 0 && flags.epochs > 0) {
    return absl::FailedPreconditionError("--steps: expected this or --epochs, found both");
  }
  if (flags.steps > 0) return flags.steps;
  const int64_t left = std::max<int64_t>((flags.epochs > 0 ? flags.epochs : 1) * samples - start.sample, 0);
  return start.step + program::CeilDiv(left, flags.plan.batch);
}

// Keeps the first error; what fails behind it is told, too.
void AddTo(absl::Status& first, const absl::Status& next) {
  if (!first.ok() && !next.ok()) Warn(next.message());
  first.Update(next);
}

absl::Status SaveWeights(const std::string& path, engine::Executor* executor, const engine::Metadata& metadata,
                         Outcome& outcome) {
  if (path.empty()) return absl::OkStatus();
  engine::StateCopy weights;
  RETURN_IF_ERROR(engine::CopyState(executor->loaded(), weights, kWeightsAlone));
  RETURN_IF_ERROR(engine::SaveTensors(path, weights.views(engine::StateKind::kValue), metadata));
  outcome.saved = "the weights of the steps done are saved";
  return absl::OkStatus();
}

absl::Status SaveAllWeights(const TrainFlags& flags, const TrainSetup& run, const engine::Metadata& metadata,
                            Outcome& outcome) {
  absl::Status status = SaveWeights(flags.save, run.train.get(), metadata, outcome);
  AddTo(status, SaveWeights(flags.save_ema, run.average.get(), metadata, outcome));
  return status;
}

absl::Status SaveTrace(const TrainFlags& flags, const engine::TrainReport& report) {
  if (flags.trace.empty()) return absl::OkStatus();
  if (report.last_steps.events.empty()) {
    Say(absl::StrCat("note: --trace: no timeline is written, since ",
                     report.losses.empty() ? "no step was made" : "the run ended with an error"));
    return absl::OkStatus();
  }
  return engine::ReplaceFile(flags.trace, engine::ToChromeJson(report.last_steps));
}

// Before anything is trained, so that nothing is lost at the end.
absl::Status CheckTrainOutputs(const TrainFlags& flags) {
  if (!flags.save_ema.empty() && flags.optimizer.ema == 0) {
    return absl::FailedPreconditionError("--save-ema: expected averages, which --ema=0.999 keeps, found none");
  }
  if (!flags.trace.empty() && flags.backend.cuda_graphs == "on") {
    return absl::FailedPreconditionError(
        "--trace: tasks of steps that are CUDA graphs are not timed; take --cuda-graphs=auto");
  }
  const auto in_checkpoints = [&](const char* name) {
    return flags.checkpoint.folder.empty() ? std::string() : absl::StrCat(flags.checkpoint.folder, "/", name);
  };
  RETURN_IF_ERROR(CheckWrittenFiles({{"--save", flags.save, FileKind::kWeights},
                                     {"--save-ema", flags.save_ema, FileKind::kWeights},
                                     {"--trace", flags.trace, FileKind::kTimeline},
                                     {"--curves", flags.record.curves, FileKind::kDrawing},
                                     {"--report", flags.report, FileKind::kPage},
                                     {flags.record.log.empty() ? "--log (for --curves)" : "--log", LogPathOf(flags.record)}},
                                    {{"--checkpoint", flags.checkpoint.folder},
                                     {"--tensorboard", flags.record.tensorboard},
                                     {"--config", flags.config},
                                     {"--search-algorithms", flags.backend.search_algorithms},
                                     {"--checkpoint", in_checkpoints("lock")},
                                     {"--checkpoint", in_checkpoints("config.toml")},
                                     {"--model", IfFile(flags.network.model)},
                                     {"--plan", IfFile(flags.plan.name)},
                                     {"--machine", IfFile(flags.profile.machine)}}));
  RETURN_IF_ERROR(CheckLog(flags));
  return CheckEventFolder(flags.record);
}

// What goes on beside the steps of a run.
struct Observers {
  Checkpointing& checkpointing;
  RunLog& log;
  Evaluations& evaluations;
  SelfReport& self_report;
  StepLines& lines;
  std::function<void(int64_t steps_done)> before_error;
};

constexpr int64_t kFirstSteps = 50;  // after which a run says what it thinks of itself

engine::TestScores ScoresOf(const engine::EvalReport& test) { return {.top1 = test.top1(), .loss = test.loss}; }

// Tests after so many steps, and says what it found.
absl::Status EvaluateWhileTraining(int64_t steps_done, const Observers& observers) {
  Evaluations& evaluations = observers.evaluations;
  const size_t before = evaluations.all().size();
  RETURN_IF_ERROR(evaluations.Evaluate(steps_done));
  if (evaluations.all().size() == before) return absl::OkStatus();
  const engine::EvalReport& test = evaluations.all().back().test;
  Say(absl::StrFormat("step %d: test %s", steps_done, Describe(test)));
  observers.checkpointing.NoteTest(steps_done, ScoresOf(test));
  return absl::OkStatus();
}

engine::TrainOptions TrainOptionsOf(const TrainFlags& flags, const std::atomic<bool>& stop, const RunCourse& course,
                                    const Observers& observers, engine::TrainReport& report_of_error) {
  return {.start = course.start,
          .steps = course.steps - course.start.step,
          .seed = flags.seed,
          .learning_rate = course.learning_rate,
          .skips_not_finite = flags.optimizer.on_not_finite == "skip",
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
                     .end =
                         [&](int64_t step) {
                           observers.checkpointing.Save(step);
                           return absl::OkStatus();
                         }},
          .pauses = {.is_due = [&](int64_t step) { return observers.evaluations.IsDue(step); },
                     .at = [&](int64_t step) -> absl::StatusOr<bool> {
                       observers.self_report.Interrupt();
                       RETURN_IF_ERROR(EvaluateWhileTraining(step, observers));
                       return !observers.evaluations.reached();
                     }},
          .before_error = observers.before_error,
          .report_of_error = &report_of_error};
}

// The steps that a run has left, if there are any.
absl::Status TrainFrom(const TrainFlags& flags, const std::atomic<bool>& stop, const RunCourse& course, TrainSetup& run,
                       data::Pipeline& samples, const Observers& observers, engine::TrainReport& report) {
  const int64_t done = course.start.step;
  if (done >= course.steps) {
    const double epochs = course.EpochsAfter(done);
    const std::string what =
        flags.epochs > 0
            ? absl::StrFormat("%.7g epoch%s done, %d asked for", epochs, epochs == 1 ? " is" : "s are", flags.epochs)
            : absl::StrFormat("%s done, %d asked for", base::Counted(done, "step", "is", "are"), course.steps);
    Say(absl::StrCat(what, ": nothing is left to do; more --steps or --epochs go on"));
    return absl::OkStatus();
  }
  // What was saved may have reached the target; and a signal may have stopped its test.
  const bool lacks_test = observers.evaluations.IsDue(done) && observers.log.lacks_test_before();
  if (done > 0 && (observers.evaluations.has_target() || lacks_test)) {
    RETURN_IF_ERROR(EvaluateWhileTraining(done, observers));
    if (observers.evaluations.reached()) return absl::OkStatus();
  }
  absl::StatusOr<engine::TrainReport> trained =
      engine::Train(*run.train, samples, TrainOptionsOf(flags, stop, course, observers, report));
  WipeOut();
  RETURN_IF_ERROR(trained.status());
  report = *std::move(trained);
  observers.self_report.Finish(report.elapsed);
  return absl::OkStatus();
}

// The last test, before anything is saved, since a run whose test is not finite is not kept; none where the run was stopped,
// which is saved at once. OutOfRange where it is not finite.
absl::Status TestAtEnd(const std::atomic<bool>& stop, Evaluations& evaluations, TrainResults& results) {
  if (!stop) RETURN_IF_ERROR(evaluations.Evaluate(results.steps_done()));
  if (!evaluations.all().empty() && evaluations.all().back().step == results.steps_done()) {
    results.test = evaluations.all().back().test;
  }
  return absl::OkStatus();
}

absl::Status TestAverages(const std::atomic<bool>& stop, TrainSetup& run, data::Pipeline* samples, TrainResults& results) {
  if (stop || run.average == nullptr || samples == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::EvalReport test, EvaluateAndShow("testing the averages:", *run.average, *samples, stop));
  if (!stop) results.test_of_averages = test;
  return absl::OkStatus();
}

StepLines LinesOf(const RunCourse& course, const TrainSetup& run, const data::Pipeline& input,
                  const absl::StatusOr<Forecast>& forecast) {
  int64_t memory = 0;
  for (int d = 0; d < run.backend->device_count(); ++d) memory = std::max(memory, run.backend->TakenBytes(d));
  return StepLines({.course = course,
                    .predicted_ms = forecast.ok() ? std::optional(absl::ToDoubleMilliseconds(forecast->step)) : std::nullopt,
                    .memory_bytes = memory,
                    .input_waited = [&input] { return input.Stages().waited; }});
}

// Saves the weights, the timeline and the last checkpoint, as far as each was asked for. Sets in `outcome` what was saved
// and whether --resume can go on.
absl::Status SaveAll(const TrainFlags& flags, const TrainSetup& run, const engine::Metadata& metadata,
                     const TrainResults& results, Checkpointing& checkpointing, Outcome& outcome) {
  const CountProgress progress("saving");
  absl::Status status;
  if (results.steps_done() > 0) status = SaveAllWeights(flags, run, metadata, outcome);
  AddTo(status, SaveTrace(flags, results.report));
  const absl::Status saved = checkpointing.Finish();
  outcome.resumes = saved.ok() && checkpointing.saves();
  if (outcome.resumes) {
    outcome.saved = results.steps_done() > 0
                        ? absl::StrFormat("a checkpoint of step %d is saved; --resume goes on", results.steps_done())
                        : "no step was done; the same command with --resume begins";
  }
  AddTo(status, saved);
  return status;
}

// One `colonnade train`, from its flags to its report.
class Training {
 public:
  Training(const TrainFlags& asked, const std::atomic<bool>& stop, Outcome& outcome)
      : flags_(asked), stop_(stop), outcome_(outcome) {}

  absl::Status Run() {
    std::optional<CountProgress> loading(std::in_place, "loading");
    RETURN_IF_ERROR(Open());
    // A checkpoint whose reader ends without a word is taken for one that readers die of.
    if (flags_.checkpoint.resume.has_value()) outcome_.before_steps();
    RETURN_IF_ERROR(BeginState());
    loading.reset();
    SayFirstLines();
    RETURN_IF_ERROR(OpenObservers());
    RETURN_IF_ERROR(checkpointing_->KeepConfig(/*trains=*/course_.start.step < course_.steps));
    outcome_.before_steps();
    const absl::Status trained = TrainFrom(flags_, stop_, course_, run_, *streams_.train,
                                           {*checkpointing_, *log_, *evaluations_, *self_report_, *lines_,
                                            [this](int64_t steps_done) { KeepBeforeError(steps_done); }},
                                           results_.report);
    for (const auto* executor : {&run_.train, &run_.eval}) {
      for (const std::string& note : (*executor)->loaded().Notes()) Warn(note);
    }
    const absl::Status tested = trained.ok() ? TestAtEnd(stop_, *evaluations_, results_) : trained;
    if (trained.ok() && !absl::IsOutOfRange(tested)) return Finish(tested);
    return FinishAfterError(tested);
  }

 private:
  // Data, network, plan, checkpoints and devices.
  absl::Status Open() {
    RETURN_IF_ERROR(CheckTrainOutputs(flags_));
    RETURN_IF_ERROR(CheckMachine(flags_.profile, flags_.backend));
    ASSIGN_OR_RETURN(streams_, OpenStreams(flags_, run_.session));
    RETURN_IF_ERROR(ChooseDtype(run_.session, flags_));
    course_ = {.batch = flags_.plan.batch, .samples = streams_.train->size()};
    const auto fields_from = [this](const engine::RunPosition& start) { return SetCourseFrom(start); };
    ASSIGN_OR_RETURN(checkpointing_, Checkpointing::Open(flags_, run_.session, streams_.metadata, fields_from));
    if (!flags_.checkpoint.resume.has_value()) RETURN_IF_ERROR(CheckWarmUp(course_.learning_rate));
    RETURN_IF_ERROR(Prepare(flags_, streams_.test != nullptr, run_));
    return checkpointing_->MakeRoom(run_.train_program);
  }

  // The fields of the run that begins or goes on there, whose course this sets.
  absl::StatusOr<engine::RunFields> SetCourseFrom(const engine::RunPosition& start) {
    course_.start = start;
    ASSIGN_OR_RETURN(course_.steps, StepsOf(flags_, course_.samples, start));
    ASSIGN_OR_RETURN(course_.learning_rate, LearningRateOf(flags_, run_.session, course_.steps));
    return RunFieldsOf(flags_, run_.session, course_.learning_rate, streams_.identity);
  }

  // Before anything is trained, as a checkpoint's.
  absl::Status CheckRoomToSave() const {
    int64_t bytes = 0;
    for (const program::Parameter& parameter : run_.train->loaded().program().parameters) {
      bytes += program::ElementCount(parameter.shape) * program::SizeInBytes(program::DType::kF32);
    }
    for (const NamedFile& file : {NamedFile{"--save", flags_.save}, NamedFile{"--save-ema", flags_.save_ema}}) {
      if (!file.path.empty()) RETURN_IF_ERROR(CheckRoomFor(file, bytes));
    }
    return absl::OkStatus();
  }

  // Begins with the state of a checkpoint, of a file of weights, or a new one.
  absl::Status BeginState() {
    RETURN_IF_ERROR(CheckRoomToSave());
    ASSIGN_OR_RETURN(results_.start, checkpointing_->Resume(run_.train->loaded()));
    RETURN_IF_ERROR(CheckWarmUp(course_.learning_rate));  // over the steps that the run has from there
    if (!checkpointing_->resumed()) RETURN_IF_ERROR(InitializeFrom(flags_, run_));
    forecast_ = MakeForecast(flags_, run_.session, run_.backend->name());
    return absl::OkStatus();
  }

  void SayFirstLines() const {
    SayFirstLinesOf(flags_, run_.session, run_.backend->name(),
                    absl::StrCat(streams_.train->description(), ", ", ToString(streams_.train->moments())), course_);
    SayNotes();
    Say(forecast_.ok() ? absl::StrCat("predicted by machine ", forecast_->machine.Title()) : forecast_.status().message());
  }

  // What is no error but may not be what was meant.
  void SayNotes() const {
    WarnOfSingleValues(run_.session.graph, flags_.plan.batch);
    const std::string launcher = LauncherNote([](const char* variable) { return std::getenv(variable); });
    if (!launcher.empty()) Warn(launcher);
    NoteFewerClasses(flags_.network, run_.session.graph, data::LabelledClasses(*streams_.train_samples), /*advises=*/true);
    if (const int64_t warm_up = course_.learning_rate.warm_up; warm_up > course_.steps) {
      Say(absl::StrFormat("note: --warm-up=%d is longer than the run of %s, whose rate stays below --lr", warm_up,
                          base::Counted(course_.steps, "step")));
    }
    if (const std::string growth = GrowthNote(course_.learning_rate); !growth.empty()) Say(growth);
    const bool is_noise = flags_.data.source == kSyntheticData;
    if (is_noise) Say(kNoteOnNoise);
    const bool trains = course_.start.step < course_.steps;
    if (trains && !is_noise && !checkpointing_->saves() && flags_.save.empty() && flags_.save_ema.empty()) {
      Say("note: without --save or --checkpoint nothing of what is trained here is kept");
    }
    if (checkpointing_->resumed() && !flags_.weights.init.empty()) {
      Say("note: --init is not read: the run goes on with the weights of its checkpoint");
    }
  }

  absl::Status OpenObservers() {
    ASSIGN_OR_RETURN(log_,
                     RunLog::Open(flags_, course_,
                                  HeadJson(flags_, run_.session, run_.backend->name(), checkpointing_->fields(), course_)));
    evaluations_.emplace(flags_.record, course_, *run_.eval, streams_.test.get(), stop_, *log_);
    const int64_t steps = course_.steps - course_.start.step;
    self_report_.emplace(run_.session, forecast_, FirstSteps(*run_.train, *streams_.train, std::min(kFirstSteps, steps)));
    lines_.emplace(LinesOf(course_, run_, *streams_.train, forecast_));
    return absl::OkStatus();
  }

  // Saves what was trained and then tested, and shows the results even where it cannot be saved.
  absl::Status Finish(const absl::Status& tested) {
    absl::Status status;
    if (results_.test.count > 0) checkpointing_->NoteTest(results_.steps_done(), ScoresOf(results_.test));
    if (results_.steps_done() > 0) status = checkpointing_->SaveLast(results_.steps_done(), run_.train->loaded());
    AddTo(status, tested);
    if (tested.ok()) AddTo(status, TestAverages(stop_, run_, streams_.test.get(), results_));
    results_.stopped = outcome_.interrupted = stop_ && LacksSomething();
    AddTo(status, SaveAll(flags_, run_, streams_.metadata, results_, *checkpointing_, outcome_));
    AddTo(status, log_->status());
    AddTo(status, WriteCurves(flags_.record, run_.session.graph.name));
    results_.error = std::string(status.message());
    AddTo(status,
          WriteTrainReport(flags_, run_.session, forecast_, *run_.backend, run_.train_program, results_, *evaluations_));
    results_.error = std::string(status.message());
    SayAllSkipped(streams_);
    PrintResults();
    return status;
  }

  // Whether steps or a test that the run was to make were not made.
  bool LacksSomething() const {
    const bool lacks_steps = results_.steps_done() < course_.steps && !evaluations_->reached();
    const bool lacks_test = results_.test.count == 0 || (run_.average != nullptr && results_.test_of_averages.count == 0);
    return lacks_steps || (streams_.test != nullptr && lacks_test);
  }

  // Shows what there is of a run that ended with an error behind its first step; weights and checkpoints are those saved
  // before. Returns the error.
  absl::Status FinishAfterError(const absl::Status& error) {
    const absl::Status saved = checkpointing_->Finish();  // the last good one is written to its end
    if (!saved.ok()) Warn(absl::StrCat("the last checkpoint was not saved: ", saved.message()));
    (void)WriteCurves(flags_.record, run_.session.graph.name);  // they may show why
    SayAllSkipped(streams_);
    if (results_.report.losses.empty()) return error;
    results_.error = std::string(error.message());
    absl::Status written = SaveTrace(flags_, results_.report);
    AddTo(written,
          WriteTrainReport(flags_, run_.session, forecast_, *run_.backend, run_.train_program, results_, *evaluations_));
    if (!written.ok()) Warn(written.message());
    if (flags_.json) PrintResults();
    return error;
  }

  // What was trained before the input failed is as good as what a stop would keep.
  void KeepBeforeError(int64_t steps_done) {
    WipeOut();
    if (steps_done == course_.start.step) return;
    const absl::Status finite = engine::CheckFiniteParameters(run_.train->loaded());
    if (!finite.ok()) return Warn(absl::StrCat("nothing was saved: ", finite.message()));
    const absl::Status weights = SaveAllWeights(flags_, run_, streams_.metadata, outcome_);
    if (!weights.ok()) Warn(absl::StrCat("weights were not saved: ", weights.message()));
    if (!outcome_.saved.empty()) Say(absl::StrFormat("the weights of %s are saved", base::Counted(steps_done, "step")));
    if (!checkpointing_->saves()) return;
    absl::Status checkpoint = checkpointing_->SaveLast(steps_done, run_.train->loaded());
    checkpoint.Update(checkpointing_->Finish());
    if (!checkpoint.ok()) return Warn(absl::StrCat("the last checkpoint was not saved: ", checkpoint.message()));
    Say(absl::StrFormat("a checkpoint of step %d is saved; --resume goes on", steps_done));
  }

  void PrintResults() const {
    if (!flags_.json) {
      PrintReport(flags_, run_.session, results_, *evaluations_);
      std::printf("%s\n", data::InputLine(streams_.train->Stages()).c_str());
      return;
    }
    nlohmann::ordered_json json = ReportJson(flags_, run_.session, *run_.backend, results_, *evaluations_,
                                             checkpointing_->Json(results_.report.held_up));
    json["input"] = InputJson(streams_.train->Stages());
    json["verdict"] = self_report_->Json();
    json.update(RecordJson(flags_, run_.session, {run_.backend->name(), streams_.train->moments(), streams_.identity}));
    PrintJson(json);
  }

  TrainFlags flags_;  // --dtype as it was chosen
  const std::atomic<bool>& stop_;
  Outcome& outcome_;
  TrainSetup run_;
  Streams streams_;
  RunCourse course_;
  std::unique_ptr<Checkpointing> checkpointing_;
  absl::StatusOr<Forecast> forecast_;
  std::unique_ptr<RunLog> log_;
  std::optional<Evaluations> evaluations_;
  std::optional<SelfReport> self_report_;
  std::optional<StepLines> lines_;
  TrainResults results_;
};

}  // namespace

SubCommand AddTrain(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome) {
  CLI::App* train = app.add_subcommand("train", "Trains a model under a plan, then tests it.");
  const auto flags = std::make_shared<TrainFlags>();
  AddSessionFlags(*train, *flags, /*dtype_may_be_auto=*/true);
  AddOptimizerFlags(*train, flags->optimizer);
  train->add_option("--steps", flags->steps, "steps in all (default: one epoch)")->check(CLI::Range(int64_t{1}, kMostSteps));
  train->add_option("--epochs", flags->epochs, "epochs in all")->check(CLI::Range(int64_t{1}, kMostEpochs));
  AddSeedFlag(*train, flags->seed, "seed of all random numbers, below 2^53");
  CLI::Option* init = train
                          ->add_option("--init", flags->weights.init,
                                       "weights to begin with, a safetensors file or FILE.index.json of several")
                          ->type_name("FILE");
  train
      ->add_flag("--replace-head", flags->weights.replace_head,
                 "with --init: initialises the last layer anew, and that of auxiliary heads, for the data's classes")
      ->needs(init);
  train->add_option("--save", flags->save, "where to write the weights, a safetensors file")->type_name("FILE");
  train->add_option("--save-ema", flags->save_ema, "where to write the weights with the averages of --ema in them")
      ->type_name("FILE");
  train->add_option("--trace", flags->trace, "where to write the timeline of the last steps, Chrome trace format")
      ->type_name("FILE");
  AddCheckpointFlags(*train, flags->checkpoint);
  AddRecordFlags(*train, flags->record);
  AddReportFlag(*train, flags->report);
  AddJsonFlag(*train, flags->json);
  AddConfigFlag(*train, flags->config);
  train->footer(
      "Examples:\n  colonnade train --model=two_column --data=digits --plan=hybrid --devices=4 --epochs=20\n"
      "  colonnade train --model=lenet --data=fashion-mnist --epochs=3 --save=lenet.safetensors --json\n"
      "  colonnade train --model=resnet20 --data=digits --epochs=20 --checkpoint=run1 --resume");
  const auto run = [=, &stop, &outcome] {
    flags->resolved = ResolvedFlags(*train);
    return Training(*flags, stop, outcome).Run();
  };
  return {.app = train, .run = run, .keeps_results = true, .ignores_sigpipe = true};
}

}  // namespace colonnade::cli
