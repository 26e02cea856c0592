#include "cli/training/checkpointing.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/counted.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "cli/command_line/config.h"
#include "cli/command_line/config_items.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/learning_rate.h"
#include "cli/session/optimizer.h"
#include "cli/training/record.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/io/xxh3.h"
#include "engine/state.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

bool IsSameFolder(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

bool IsCheckpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / engine::kManifestName, ignored);
}

// Those of a run in a checkpoint of it would be lost from sight, and keep it from being removed.
absl::Status CheckIsNoCheckpoint(const std::string& folder) {
  if (!engine::ReadManifest(folder).ok()) return absl::OkStatus();  // none, or that of another program
  return absl::FailedPreconditionError(absl::StrFormat(
      "--checkpoint: expected the folder of a run, found a checkpoint, %s; name the run's folder; --resume=%s goes on from "
      "this checkpoint",
      folder, folder));
}

std::string Numbers(const std::vector<double>& values) {
  return values.empty() ? "of the data" : absl::StrJoin(values, ",", [](std::string* out, double v) { *out += Digits(v); });
}

// Fields that RunFieldsOf states only where they are not what runs before them did, or where the optimiser has them.
constexpr const char* kStatedWhereUsed[] = {"bad-sample", "betas",         "epsilon",       "momentum", "trust", "decay",
                                            "clip-norm",  "on-not-finite", "head-lr-scale", "freeze",   "ema",   "network"};

// With another of these the state has other tensors, or tensors of other shapes.
constexpr const char* kOfTheState[] = {"classes", "width", "freeze"};

// Checks that every field of --allow-change is one that may differ.
absl::Status CheckAllowed(const std::vector<std::string>& allowed, const engine::RunFields& run) {
  std::vector<std::string> fields;
  for (const auto& [field, value] : run) fields.push_back(field);
  for (const char* field : kStatedWhereUsed) {
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
  }
  fields.erase(std::remove_if(fields.begin(), fields.end(),
                              [](const std::string& field) { return absl::c_linear_search(kOfTheState, field); }),
               fields.end());
  for (const std::string& name : allowed) {
    if (absl::c_linear_search(kOfTheState, name)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "--allow-change: expected fields that leave the state of a run as it is (%s), found \"%s\"; begin anew, with the "
          "weights of the checkpoint by --init",
          absl::StrJoin(fields, ", "), name));
    }
    if (std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
    return absl::FailedPreconditionError(absl::StrFormat("--allow-change: expected fields of a run (%s), found \"%s\"%s",
                                                         absl::StrJoin(fields, ", "), name,
                                                         base::DidYouMean("; ", name, fields)));
  }
  return absl::OkStatus();
}

// What an optimiser keeps: the last change of a parameter, which holds the rate; a sum of gradients; or AdamW's moments.
enum class Kept { kChange, kGradients, kMoments };
Kept KeptBy(absl::string_view optimizer) {
  if (optimizer == "adamw") return Kept::kMoments;
  return optimizer == "pytorch" || optimizer == "nesterov" ? Kept::kGradients : Kept::kChange;
}

// Whether a checkpoint surely has another state where a field is another: other tensors, of other shapes, or of another
// meaning. Of another input, or an edited file, it may have the same.
bool ChangesState(const std::string& field, const std::string& saved, const std::string& current) {
  if (field == "optimizer") return KeptBy(saved) != KeptBy(current);
  return field == "model" || absl::c_linear_search(kOfTheState, field);
}

// Moves those to the end of which reading has ended two processes before this one.
void TryLastWhatReadersDiedOf(const engine::CheckpointFolder& folder, std::vector<int64_t>& steps) {
  constexpr int kMostDeaths = 2;
  const auto others = std::stable_partition(steps.begin(), steps.end(),
                                            [&](int64_t step) { return folder.DeathsOfReaders(step) < kMostDeaths; });
  for (auto step = others; step != steps.end() && others != steps.begin(); ++step) {
    Warn(absl::StrFormat("%s: the last %d processes died while they read it; trying another one first", folder.PathOf(*step),
                         folder.DeathsOfReaders(*step)));
  }
}

constexpr absl::string_view kFlagsOfTheZoo[] = {"width",           "dropout",        "batch-norm", "zero-init-residual",
                                                "auxiliary-heads", "label-smoothing"};

// Returns a checksum of a network's layers: a file may be edited between two runs.
std::string FingerprintOf(const layers::LayerGraph& graph) {
  return engine::Xxh3Text(tools::NetworkToJson({.info = {}, .graph = graph}));
}

// What those may do whose run is another than the checkpoint's by `fields`.
std::string AdviceOnAnother(const engine::VerifiedCheckpoint& checkpoint, bool state_fits,
                            const std::vector<std::string>& fields) {
  if (state_fits) return absl::StrFormat("--allow-change=%s goes on all the same", absl::StrJoin(fields, ","));
  return absl::StrFormat("its state is not this run's: begin anew, with its weights by --init=%s/%s if they fit",
                         checkpoint.folder(), engine::FileNameOf(engine::StateKind::kValue));
}

}  // namespace

bool IsOrIsIn(const std::string& checkpoint, const std::string& folder) {
  return IsSameFolder(checkpoint, folder) || IsSameFolder(checkpoint + "/..", folder);
}

std::string RoomNote(int64_t bytes, int64_t free, int64_t added) {
  if (free >= added * bytes) return "";
  const int64_t room = free / std::max<int64_t>(bytes, 1);
  return absl::StrFormat(
      "the disk has room for %s of %.1f MB more, but the run may add %d; what finds no room is not saved "
      "(--checkpoint-keep=N keeps fewer)",
      base::Counted(room, "checkpoint"), static_cast<double>(bytes) / 1e6, added);
}

engine::RunFields RunFieldsOf(const TrainFlags& flags, const Session& session, const engine::LearningRatePolicy& rate,
                              const std::string& data) {
  engine::RunFields fields = {
      {"model", session.graph.name},
      {"input", program::ToString(session.graph.nodes[0].sample_shape)},
      {"classes", absl::StrCat(flags.network.classes > 0 ? flags.network.classes : session.model.classes)},
      {"width", Digits(flags.network.width)},
      {"dropout", flags.network.dropout},
      {"batch-norm", flags.network.batch_norm},
      {"zero-init-residual", flags.network.zero_init_residual},
      {"auxiliary-heads", flags.network.auxiliary_heads},
      {"label-smoothing", Digits(flags.network.label_smoothing)},
      {"data", data},
      {"shuffle", flags.data.shuffle},
      {"augment", flags.data.augment},
      {"mean", Numbers(flags.data.mean)},
      {"std", Numbers(flags.data.std)},
      {"batch", absl::StrCat(flags.plan.batch)},
      {"seed", absl::StrCat(flags.seed)},
      {"dtype", DTypeName(flags.backend)},
      {"lr", Digits(rate.base)},
      {"lr-policy", Describe(rate)}};
  if (flags.data.bad_sample != "error") fields.emplace_back("bad-sample", flags.data.bad_sample);
  if (tools::IsNetworkFile(flags.network.model)) fields.emplace_back("network", FingerprintOf(session.graph));
  for (auto& field : UpdateFieldsOf(flags.optimizer, UpdateOptionsOf(flags.optimizer, session)))
    fields.push_back(std::move(field));
  return fields;
}

namespace {

bool NamesCheckpoint(const std::string& config, const std::string& folder) {
  constexpr int64_t kLargestConfig = 1 << 20;
  const absl::StatusOr<std::string> text = engine::ReadFile(config, kLargestConfig);
  if (!text.ok()) return false;
  const absl::StatusOr<std::vector<ConfigItem>> items = ReadConfig(*text, config, {}, /*searches_again=*/false);
  return items.ok() && absl::c_any_of(*items, [&](const ConfigItem& item) {
           return item.name == "checkpoint" && item.values == std::vector<std::string>{folder};
         });
}

// A config.toml that a run wrote names its folder as it was: where that was moved, a run by it would begin anew.
absl::Status CheckWasNotMoved(const std::string& config, const std::string& folder) {
  std::error_code ignored;
  if (config.empty() || std::filesystem::exists(folder, ignored) || !NamesCheckpoint(config, folder)) {
    return absl::OkStatus();
  }
  const std::filesystem::path above = std::filesystem::path(config).parent_path();
  const std::string beside = above.empty() ? "." : above.string();
  const absl::StatusOr<std::vector<int64_t>> steps = engine::CheckpointSteps(beside);
  if (!steps.ok() || steps->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("--checkpoint: expected %s, where the checkpoints of %s are, found %s, which is not there; say "
                      "--checkpoint=%s, or name another folder that is there",
                      beside, config, folder, beside));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpointing>> Checkpointing::Open(const TrainFlags& flags, const Session& session,
                                                                   engine::Metadata metadata, FieldsFrom fields_from) {
  std::unique_ptr<Checkpointing> result(new Checkpointing(flags, session));
  ASSIGN_OR_RETURN(result->run_, fields_from({}));
  result->metadata_ = std::move(metadata);
  result->fields_from_ = std::move(fields_from);
  result->interval_ = ParseCheckpointInterval(flags.checkpoint.every).value_or(CheckpointInterval{});
  RETURN_IF_ERROR(CheckAllowed(flags.checkpoint.allow_change, result->run_));
  if (flags.checkpoint.folder.empty()) {
    if (flags.checkpoint.resume != "") return result;
    return absl::FailedPreconditionError("--resume: expected a folder of checkpoints, or --checkpoint=DIR, found neither");
  }
  RETURN_IF_ERROR(CheckIsNoCheckpoint(flags.checkpoint.folder));
  RETURN_IF_ERROR(CheckWasNotMoved(flags.config, flags.checkpoint.folder));
  ASSIGN_OR_RETURN(result->folder_,
                   engine::CheckpointFolder::Open(flags.checkpoint.folder, {.keep = flags.checkpoint.keep}));
  if (!result->folder_->is_locked()) Say(absl::StrCat("note: ", engine::NoLockNote(flags.checkpoint.folder)));
  result->saver_ = std::make_unique<engine::CheckpointSaver>(*result->folder_);
  RETURN_IF_ERROR(result->CheckFolder());
  return result;
}

// Checkpoints of two runs in one folder would be taken for those of one.
absl::Status Checkpointing::CheckFolder() const {
  if (flags_.checkpoint.resume.has_value()) {
    const std::string& from = *flags_.checkpoint.resume;
    if (from.empty() || IsOrIsIn(from, folder_->path())) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> steps, engine::CheckpointSteps(folder_->path()));
  if (steps.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "--checkpoint: expected a folder without checkpoints, found that of step %d in %s; %s to go on from it, "
      "or name another folder",
      steps.back(), folder_->path(),
      flags_.checkpoint.resume.has_value() ? "leave the folder of --resume out" : "add --resume"));
}

absl::Status Checkpointing::MakeRoom(const program::Program& program) {
  if (!saves()) return absl::OkStatus();
  engine::ReserveState(program, saver_->copy());
  const int64_t bytes = engine::CheckpointBytes(program);
  RETURN_IF_ERROR(folder_->CheckFreeSpace(bytes));
  ASSIGN_OR_RETURN(const int64_t free, folder_->FreeBytes());
  ASSIGN_OR_RETURN(const int64_t added, folder_->MostAdded());
  if (const std::string note = RoomNote(bytes, free, added); !note.empty()) Warn(absl::StrCat(folder_->path(), ": ", note));
  return absl::OkStatus();
}

absl::Status Checkpointing::CheckFields(const engine::VerifiedCheckpoint& checkpoint,
                                        const program::Program& program) const {
  const engine::RunFields& saved = checkpoint.manifest().run;
  const std::map<std::string, std::string> before(saved.begin(), saved.end()), now(run_.begin(), run_.end());
  engine::RunFields all = run_;
  for (const auto& field : saved) {
    if (!now.contains(field.first)) all.push_back(field);
  }
  const auto value_of = [](const std::map<std::string, std::string>& of, const std::string& field) {
    const auto it = of.find(field);
    return it == of.end() ? "(none)" : it->second;
  };
  std::vector<std::string> differences, fields;
  bool is_other_state = false;
  const bool one_is_a_file = before.contains("network") != now.contains("network");
  for (const auto& [field, unused] : all) {
    const std::string was = value_of(before, field), current = value_of(now, field);
    if (was == current) continue;
    // Flags that shape a network of the zoo say nothing of one in a file, whose layers are compared.
    if (one_is_a_file && absl::c_linear_search(kFlagsOfTheZoo, field)) continue;
    fields.push_back(field);
    const bool is_allowed = absl::c_linear_search(flags_.checkpoint.allow_change, field);
    // What a file calls its network says nothing of its layers, and another name may be of the same ones.
    const bool is_name = field == "model" && (is_allowed || before.contains("network") || now.contains("network"));
    const bool changes_state = !is_name && ChangesState(field, was, current);
    is_other_state = is_other_state || changes_state;
    if (!is_allowed || changes_state) differences.push_back(absl::StrFormat("%s: %s → %s", field, was, current));
  }
  if (differences.empty()) return absl::OkStatus();
  constexpr auto kValue = engine::StateKind::kValue;
  const bool fits = !is_other_state && engine::CheckState(program, kValue, checkpoint.tensors(kValue)).ok();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: expected the run that was saved, found another (saved → current): %s; %s", checkpoint.folder(),
                      absl::StrJoin(differences, "; "), AdviceOnAnother(checkpoint, fits, fields)));
}

absl::StatusOr<engine::RunPosition> Checkpointing::ResumeFrom(const engine::VerifiedCheckpoint& checkpoint,
                                                              engine::LoadedProgram& loaded) {
  ASSIGN_OR_RETURN(run_, fields_from_(checkpoint.manifest().position));
  RETURN_IF_ERROR(CheckFields(checkpoint, loaded.program()));
  if (const absl::Status restored = checkpoint.Restore(loaded); absl::IsInvalidArgument(restored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(restored.message(), "; its state is not this run's: begin anew in another folder"));
  } else {
    RETURN_IF_ERROR(restored);
  }
  resumed_from_ = checkpoint.folder();
  bytes_ = checkpoint.manifest().Bytes();
  return checkpoint.manifest().position;
}

absl::StatusOr<engine::RunPosition> Checkpointing::ResumeFromNewest(const std::string& folder,
                                                                    engine::LoadedProgram& loaded) {
  absl::StatusOr<std::vector<int64_t>> found = engine::CheckpointSteps(folder);
  if (!found.ok()) return engine::WithContext(found.status(), "--resume");
  std::vector<int64_t> steps = *std::move(found);
  const bool own = saves() && IsSameFolder(folder, folder_->path());
  if (steps.empty() && own) return engine::RunPosition{};
  std::reverse(steps.begin(), steps.end());
  if (own) TryLastWhatReadersDiedOf(*folder_, steps);
  absl::Status first = absl::NotFoundError(absl::StrFormat("--resume: expected a checkpoint in %s, found none", folder));
  std::vector<int64_t> damaged;
  for (int64_t step : steps) {
    std::optional<engine::ReadingMark> mark;
    if (own) mark.emplace(*folder_, step);
    const absl::StatusOr<engine::VerifiedCheckpoint> checkpoint =
        engine::VerifiedCheckpoint::Open(engine::CheckpointPath(folder, step));
    if (checkpoint.ok()) {
      ASSIGN_OR_RETURN(engine::RunPosition position, ResumeFrom(*checkpoint, loaded));
      for (int64_t other : steps) {
        const bool is_bad = other > step || absl::c_linear_search(damaged, other);
        if (own && is_bad) RETURN_IF_ERROR(folder_->SetAside(other));
      }
      return position;
    }
    const absl::Status& damage = checkpoint.status();
    if (damaged.empty()) first = damage;
    if (!absl::IsInvalidArgument(damage) && !absl::IsNotFound(damage)) return damage;
    const bool is_last = step == steps.back();
    Warn(absl::StrCat(damage.message(), is_last ? "" : "; trying the one before"));
    damaged.push_back(step);
  }
  if (steps.empty()) return first;
  return absl::Status(first.code(),
                      absl::StrFormat("%s: expected a checkpoint that is whole, found %d damaged, the newest by: %s; "
                                      "begin anew in another folder, or bring back a copy of one",
                                      folder, steps.size(), first.message()));
}

// Refuses later checkpoints in the folder: the next --resume would go on from what this run has abandoned.
absl::Status Checkpointing::CheckNothingLater(int64_t step) const {
  if (!saves()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<int64_t> steps, engine::CheckpointSteps(folder_->path()));
  if (steps.empty() || steps.back() <= step) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "--checkpoint: expected no checkpoint later than step %d, from which this run goes on, found that of step %d in %s; "
      "remove the later ones, or name another folder",
      step, steps.back(), folder_->path()));
}

absl::StatusOr<engine::RunPosition> Checkpointing::Resume(engine::LoadedProgram& loaded) {
  last_save_ = base::SteadyNow();
  if (flags_.checkpoint.resume.has_value()) {
    const std::string from = flags_.checkpoint.resume->empty() ? folder_->path() : *flags_.checkpoint.resume;
    if (IsCheckpoint(from)) {
      ASSIGN_OR_RETURN(engine::VerifiedCheckpoint checkpoint, engine::VerifiedCheckpoint::Open(from));
      ASSIGN_OR_RETURN(from_, ResumeFrom(checkpoint, loaded));
    } else {
      ASSIGN_OR_RETURN(from_, ResumeFromNewest(from, loaded));
    }
    RETURN_IF_ERROR(CheckNothingLater(from_.step));
    Say(resumed() ? absl::StrFormat("resumed from %s: %s and %s are done", resumed_from_, base::Counted(from_.step, "step"),
                                    base::Counted(from_.sample, "image"))
                  : absl::StrFormat("no checkpoint in %s yet: from the beginning", from));
  }
  if (saves() && resumed() && IsSameFolder(resumed_from_, folder_->PathOf(from_.step))) last_step_ = from_.step;
  if (saves()) {
    ASSIGN_OR_RETURN(best_test_, BestSavedTest());
  }
  return from_;
}

absl::StatusOr<std::optional<engine::TestScores>> Checkpointing::BestSavedTest() const {
  ASSIGN_OR_RETURN(const std::optional<engine::Manifest> best, folder_->Best());
  return best.has_value() ? best->test : std::nullopt;
}

absl::Status Checkpointing::KeepConfig(bool trains) const {
  if (!saves()) return absl::OkStatus();
  const std::string path = absl::StrCat(folder_->path(), "/config.toml");
  std::error_code ignored;
  if (!trains && std::filesystem::exists(path, ignored)) return absl::OkStatus();
  return engine::ReplaceFile(path, ConfigText(WithAbsolutePaths(FlagsThatRepeat(flags_, session_))));
}

void Checkpointing::AddLoss(double loss) {
  if (!std::isfinite(loss)) return;  // of a step that was skipped
  losses_.sum += loss;
  ++losses_.count;
}

void Checkpointing::NoteTest(int64_t step, const engine::TestScores& test) {
  tested_step_ = step;
  test_ = test;
  if (!saves()) return;
  // The state that the run resumed from: it is saved already, and its checkpoint may lack the test; or it is not in this
  // folder, and so no later checkpoint is the worse for it.
  if (resumed() && step == from_.step) {
    if (step != last_step_) return;
    const absl::Status stated = folder_->StateTest(step, test);
    if (!stated.ok()) Warn(absl::StrCat("the test of a checkpoint was not saved with it: ", stated.message()));
  }
  if (best_test_.has_value() && !engine::IsBetterTest(test, *best_test_)) return;
  best_test_ = test;
  best_step_ = step;
}

bool Checkpointing::IsDue(int64_t step) {
  if (!saves()) return false;
  Tell(saver_->Poll());
  if (!not_finite_.ok()) return true;  // and BeginCopy ends the run
  if (step == best_step_ && step != last_step_) return true;
  if (interval_.steps > 0) return step % interval_.steps == 0;
  return base::SteadyNow() - last_save_ >= absl::Minutes(interval_.minutes);
}

absl::Status Checkpointing::Note(const std::optional<engine::SavedCheckpoint>& saved) {
  if (!saved.has_value()) return absl::OkStatus();
  if (!saved->status.ok()) {
    ++failed_;
    losses_.sum += losses_of_copy_.sum;
    losses_.count += losses_of_copy_.count;
    if (saved->step == best_step_) ForgetBestTest();
    if (absl::IsOutOfRange(saved->status)) not_finite_ = saved->status;
    return saved->status;
  }
  if (!saved->retired.ok()) Warn(absl::StrCat("an older checkpoint was not removed: ", saved->retired.message()));
  ++saved_;
  last_step_ = saved->step;
  bytes_ = saved->bytes;
  written_ += saved->written;
  return absl::OkStatus();
}

// The next test is the best where it is better than those that are saved.
void Checkpointing::ForgetBestTest() {
  best_test_ = BestSavedTest().value_or(std::nullopt);
  best_step_ = -1;
}

// What another disk or an administrator may mend is no reason to end a training; what is not finite is.
void Checkpointing::Tell(const std::optional<engine::SavedCheckpoint>& saved) {
  const absl::Status status = Note(saved);
  if (status.ok() || absl::IsOutOfRange(status)) return;
  Warn(absl::StrCat("a checkpoint was not saved: ", status.message(),
                    "; training goes on, and the next is tried at its time"));
}

absl::StatusOr<engine::StateCopy*> Checkpointing::BeginCopy() {
  Tell(saver_->Await());
  if (!not_finite_.ok()) return not_finite_;
  return &saver_->copy();
}

void Checkpointing::Save(int64_t step) {
  engine::Manifest manifest{
      .position = {.step = step, .sample = from_.sample + (step - from_.step) * flags_.plan.batch},
      .run = run_,
      .plan = absl::StrCat(session_.plan.name, " on ", base::Counted(session_.plan.mesh.device_count(), "device")),
      .metadata = metadata_};
  if (step == tested_step_) manifest.test = test_;
  if (losses_.count > 0) manifest.position.loss = losses_.sum / static_cast<double>(losses_.count);
  losses_of_copy_ = std::exchange(losses_, {});
  last_save_ = base::SteadyNow();
  saver_->Begin(manifest);
}

absl::Status Checkpointing::SaveLast(int64_t step, const engine::LoadedProgram& loaded) {
  if (!saves()) return absl::OkStatus();
  ASSIGN_OR_RETURN(engine::StateCopy * copy, BeginCopy());
  if (step == last_step_) return absl::OkStatus();
  RETURN_IF_ERROR(engine::WithContext(engine::CopyState(loaded, *copy),
                                      absl::StrFormat("the state after %s cannot be saved", base::Counted(step, "step"))));
  Save(step);
  return absl::OkStatus();
}

absl::Status Checkpointing::Finish() { return saves() ? Note(saver_->Await()) : absl::OkStatus(); }

nlohmann::ordered_json Checkpointing::Json(const std::optional<absl::Duration>& held_up) const {
  if (!saves()) return nullptr;
  nlohmann::ordered_json stood_still_ms;
  if (held_up.has_value()) stood_still_ms = absl::ToDoubleMilliseconds(*held_up);
  const auto of_last = [&](int64_t value) {
    return last_step_ < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return {{"folder", folder_->path()},
          {"saved", saved_},
          {"failed", failed_},
          {"last_step", of_last(last_step_)},
          {"bytes", of_last(bytes_)},
          {"stood_still_ms", stood_still_ms},
          {"written_ms", absl::ToDoubleMilliseconds(written_)},
          {"resumed_from", OrNull(resumed_from_)}};
}

}  // namespace colonnade::cli
