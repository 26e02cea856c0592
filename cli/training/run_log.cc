#include "cli/training/run_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/command_line/config.h"
#include "cli/command_line/config_items.h"
#include "cli/output/progress.h"
#include "cli/output/test_json.h"
#include "cli/training/checkpointing.h"
#include "cli/training/curves.h"
#include "cli/training/record.h"
#include "engine/io/file.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLogVersion = 1;
constexpr char kCheckpointKey[] = "checkpoint", kResumeKey[] = "resume";
constexpr int64_t kMostHeadBytes = 1 << 20;  // of the first line

// The flag that asks for the log.
const char* LogFlagOf(const RecordFlags& flags) { return flags.log.empty() ? "--curves" : "--log"; }

absl::Status OfLogFlag(const RecordFlags& flags, const absl::Status& status) {
  return base::WithContext(status, LogFlagOf(flags));
}

absl::Status CheckHead(const std::string& path, absl::string_view contents) {
  const absl::string_view line = contents.substr(0, contents.find('\n'));
  const Json head = ParseLogLine(line);
  if (head.is_object() && head.contains(kLogVersionKey) && head[kLogVersionKey] == kLogVersion) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: expected the log of a run, whose first line has \"%s\": %d, found a file that begins with \"%s\"; name another "
      "file, or remove this one",
      path, kLogVersionKey, kLogVersion, absl::CHexEscape(line.substr(0, 40))));
}

// The head that stands last in a log.
Json LastHead(absl::string_view contents) {
  const size_t last = contents.rfind(absl::StrCat("\n{\"", kLogVersionKey, "\":"));
  absl::string_view line = contents.substr(last == absl::string_view::npos ? 0 : last + 1);
  line = line.substr(0, line.find('\n'));
  return ParseLogLine(line);
}

// The run's field in the head that stands last in a log; "" where it is no text.
std::string FieldOf(absl::string_view contents, const char* field) {
  const Json head = LastHead(contents);
  const bool has_fields = head.is_object() && head.contains("run") && head["run"].is_object();
  if (!has_fields || !head["run"].contains(field) || !head["run"][field].is_string()) return "";
  return head["run"][field].get<std::string>();
}

// Checks that the log which is gone on with is of the same network, but for what may differ.
absl::Status CheckSameNetwork(const TrainFlags& flags, absl::string_view contents, absl::string_view head) {
  for (const char* field : {"model", "input"}) {
    const std::string old = FieldOf(contents, field), own = FieldOf(head, field);
    if (old == own || absl::c_linear_search(flags.checkpoint.allow_change, field)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s: expected the log of this run, whose %s is %s, found that of a run "
                        "whose %s is \"%s\"; name another file, or remove this one",
                        LogFlagOf(flags.record), LogPathOf(flags.record), field, own, field, old));
  }
  return absl::OkStatus();
}

// The folder that a key names in the head that stands last in a log; "" where there is none.
std::string FolderOf(absl::string_view contents, const char* key) {
  const Json head = LastHead(contents);
  return head.is_object() && head.contains(key) && head[key].is_string() ? head[key].get<std::string>() : "";
}

// A folder for the head, from wherever it is read; null where there is none.
Json PlaceJson(const std::string& folder) {
  if (folder.empty()) return nullptr;
  std::error_code ignored;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(folder, ignored), ignored).string();
}

// A log may be gone on with from another folder than its run saved in, as where that was moved; but it may be another run's.
void WarnOfOtherCheckpoints(const TrainFlags& flags, const std::string& path, absl::string_view contents) {
  const std::string resume = flags.checkpoint.resume.value_or(""), from = resume.empty() ? flags.checkpoint.folder : resume;
  const std::string saved = FolderOf(contents, kCheckpointKey), begun = FolderOf(contents, kResumeKey);
  std::error_code ignored;
  const bool is_there =
      !saved.empty() && std::filesystem::exists(saved, ignored);  // else it was moved, or this is elsewhere
  if (!is_there || IsOrIsIn(from, saved) || (!begun.empty() && IsOrIsIn(from, begun))) return;
  Warn(
      absl::StrFormat("%s: %s is of a run whose checkpoints are in %s, and this run goes on from %s; if these are two "
                      "runs, name another file",
                      LogFlagOf(flags.record), path, saved, from));
}

// Whether a log keeps a test after so many steps.
bool HasTest(absl::string_view contents, int64_t step) {
  const Curve tests = CurvesOf(contents).top1;
  return absl::c_any_of(tests, [&](const auto& point) { return point.first == static_cast<double>(step); });
}

// What a process left that was killed in its first line.
bool IsTornHead(absl::string_view contents) {
  const std::string beginning = absl::StrCat("{\"", kLogVersionKey, "\":");
  const size_t common = std::min(contents.size(), beginning.size());
  return !absl::StrContains(contents, '\n') && contents.substr(0, common) == absl::string_view(beginning).substr(0, common);
}

bool HasSteps(absl::string_view log) { return absl::StrContains(log, "\n{\"step\":"); }

// The first bytes of a file, if it is one that can be read.
std::string BeginningOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::string bytes(kMostHeadBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), kMostHeadBytes);
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

// Whether every run of a log wrote it for its --curves alone, as the flags in its heads say.
bool IsOfDrawing(absl::string_view log) {
  const auto was_asked_for = [](absl::string_view line) {
    const Json head = ParseLogLine(line);
    if (!head.is_object() || !head.contains("config") || !head["config"].is_string()) return true;
    const auto flags = ReadConfig(head["config"].get<std::string>(), "", {}, /*searches_again=*/false);
    return !flags.ok() || absl::c_any_of(*flags, [](const ConfigItem& flag) { return flag.name == "log"; });
  };
  const std::string beginning = absl::StrCat("{\"", kLogVersionKey, "\":");
  return absl::c_none_of(absl::StrSplit(log, '\n'),
                         [&](absl::string_view line) { return absl::StartsWith(line, beginning) && was_asked_for(line); });
}

absl::Status HasStepsOfARun(const RecordFlags& flags, absl::string_view or_else) {
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected a new file, or %s, found %s, which has the steps of a run; name another file, or "
                      "remove this one",
                      LogFlagOf(flags), or_else, LogPathOf(flags)));
}

// A run that found no checkpoint begins its log anew, but no other's.
absl::Status CheckBeginsItsOwn(const RecordFlags& flags, absl::string_view contents, absl::string_view head) {
  const auto place_of = [](const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(folder, ignored);
  };
  const std::string saved = FolderOf(contents, kCheckpointKey), own = FolderOf(head, kCheckpointKey);
  if (!HasSteps(contents) || (!saved.empty() && place_of(saved) == place_of(own))) return absl::OkStatus();
  return HasStepsOfARun(flags, "that of a run whose checkpoints are where this one's are");
}

}  // namespace

Json HeadJson(const TrainFlags& flags, const Session& session, const std::string& backend, const engine::RunFields& fields,
              const RunCourse& course) {
  Json run = Json::object();
  for (const auto& [field, value] : fields) run[field] = value;
  return {{kLogVersionKey, kLogVersion},
          {"first_step", course.start.step},
          {"steps", course.steps},
          {"plan", session.plan.name},
          {"devices", session.plan.mesh.device_count()},
          {"backend", backend},
          {"run", std::move(run)},
          {kCheckpointKey, PlaceJson(flags.checkpoint.folder)},
          {kResumeKey, PlaceJson(flags.checkpoint.resume.value_or(""))},
          {"config", ConfigText(FlagsThatRepeat(flags, session))}};
}

Json StepJson(const StepRecord& record) {
  return {{"step", record.step},
          {"epoch", record.epoch},
          {"loss", record.loss},
          {"lr", record.learning_rate},
          {"images_per_s", record.images_per_s},
          {"seconds", record.seconds}};
}

Json EvaluationJson(const EvaluationRecord& record) {
  return {{"step", record.step}, {"test", TestJson(record.test)}, {"seconds", record.seconds}};
}

std::string LogLine(const Json& object) {
  return absl::StrCat(object.dump(-1, ' ', false, Json::error_handler_t::replace), "\n");
}

Json ParseLogLine(absl::string_view line) { return base::ParseJson<Json>(line, kDeepestRecord).value_or(Json()); }

absl::StatusOr<int64_t> WholeLogBytes(const std::string& path, absl::string_view contents) {
  if (IsTornHead(contents)) return 0;
  RETURN_IF_ERROR(CheckHead(path, contents));
  return static_cast<int64_t>(contents.rfind('\n') + 1);  // npos + 1 is 0
}

absl::Status CheckLog(const TrainFlags& flags) {
  const std::string path = LogPathOf(flags.record), beginning = BeginningOf(path);
  if (IsTornHead(beginning)) return absl::OkStatus();
  if (const absl::Status head = CheckHead(path, beginning); !head.ok()) return OfLogFlag(flags.record, head);
  if (flags.checkpoint.resume.has_value() || !HasSteps(beginning)) return absl::OkStatus();
  std::error_code ignored;
  if (flags.record.log.empty() && std::filesystem::exists(flags.record.curves, ignored)) {
    ASSIGN_OR_RETURN(const std::string log, engine::ReadFile(path, kLargestLog));
    if (IsOfDrawing(log)) return absl::OkStatus();
  }
  return HasStepsOfARun(flags.record, "--resume to go on with the run of this log");
}

std::string LogPathOf(const RecordFlags& flags) {
  if (!flags.log.empty() || flags.curves.empty()) return flags.log;
  return absl::StrCat(absl::StripSuffix(flags.curves, ".svg"), ".jsonl");
}

absl::Status CheckEventFolder(const RecordFlags& flags) {
  if (flags.tensorboard.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(engine::MakeFolders(flags.tensorboard));
  return engine::CheckWritable(absl::StrCat(flags.tensorboard, "/events"));
}

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Open(const TrainFlags& flags, const RunCourse& course, const Json& head) {
  std::unique_ptr<RunLog> log(new RunLog(course));
  if (!LogPathOf(flags.record).empty()) RETURN_IF_ERROR(log->OpenLog(flags, head));
  if (!flags.record.tensorboard.empty())
    RETURN_IF_ERROR(log->OpenEvents(flags.record.tensorboard, flags.checkpoint.resume.has_value()));
  return log;
}

absl::Status RunLog::OpenLog(const TrainFlags& flags, const Json& head) {
  const std::string path = LogPathOf(flags.record);
  int64_t kept = 0;
  std::error_code ignored;
  const bool may_go_on = flags.checkpoint.resume.has_value() && std::filesystem::exists(path, ignored);
  if (may_go_on && course_.start.step == 0) {
    ASSIGN_OR_RETURN(const std::string contents, engine::ReadFile(path, kLargestLog));
    RETURN_IF_ERROR(CheckBeginsItsOwn(flags.record, contents, LogLine(head)));
  } else if (may_go_on) {
    ASSIGN_OR_RETURN(std::string contents, engine::ReadFile(path, kLargestLog));
    ASSIGN_OR_RETURN(kept, WholeLogBytes(path, contents));
    if (kept > 0) {
      RETURN_IF_ERROR(CheckSameNetwork(flags, contents, LogLine(head)));
      WarnOfOtherCheckpoints(flags, path, contents);
    }
    has_test_before_ = HasTest(absl::string_view(contents).substr(0, kept), course_.start.step);
    lacks_test_before_ = kept > 0 && !has_test_before_;
  }
  ASSIGN_OR_RETURN(log_, engine::AppendFile::Open(path, kept));
  if (!log_->is_locked()) Say(absl::StrCat("note: ", engine::NoLockNote(path)));
  return log_->Append(LogLine(head));
}

// A run that may go on may also begin anew, after one that was ended before its first checkpoint.
absl::Status RunLog::OpenEvents(const std::string& folder, bool may_go_on) {
  ASSIGN_OR_RETURN(events_, engine::EventFile::Create(folder));
  return may_go_on ? events_->AddRestart(course_.start.step + 1) : absl::OkStatus();
}

void RunLog::AddStep(const engine::TrainProgress& progress) {
  if (log_ == nullptr && events_ == nullptr) return;
  const double seconds = absl::ToDoubleSeconds(progress.elapsed - last_elapsed_);
  last_elapsed_ = progress.elapsed;
  const StepRecord record{.step = progress.step,
                          .epoch = course_.EpochsAfter(progress.step),
                          .loss = progress.loss,
                          .learning_rate = engine::LearningRateAt(course_.learning_rate, progress.step - 1),
                          .images_per_s = seconds > 0 ? static_cast<double>(course_.batch) / seconds : 0,
                          .seconds = Seconds()};
  Write(StepJson(record), record.step,
        {{"train/loss", record.loss}, {"train/lr", record.learning_rate}, {"perf/images_per_s", record.images_per_s}});
}

EvaluationRecord RunLog::AddEvaluation(int64_t step, const engine::EvalReport& test) {
  const EvaluationRecord record{.step = step, .test = test, .seconds = Seconds()};
  const bool is_in_log = has_test_before_ && step == course_.start.step;
  if (log_ != nullptr && !is_in_log) Note(log_->Append(LogLine(EvaluationJson(record))));
  if (events_ != nullptr) {
    Note(events_->AddScalars(step, {{"val/loss", test.loss}, {"val/top1", test.top1()}, {"val/top5", test.top5()}}));
  }
  return record;
}

void RunLog::Write(const Json& object, int64_t step, absl::Span<const engine::Scalar> scalars) {
  if (log_ != nullptr) Note(log_->Append(LogLine(object)));
  if (events_ != nullptr) Note(events_->AddScalars(step, scalars));
}

void RunLog::Note(const absl::Status& status) {
  if (status.ok() || !status_.ok()) return;
  Warn(absl::StrCat("what the run records is not complete: ", status.message(), "; training goes on"));
  status_ = status;
}

}  // namespace colonnade::cli
