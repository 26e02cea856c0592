// What --checkpoint, --checkpoint-every, --resume and --allow-change ask of a training run.
#ifndef COLONNADE_CLI_TRAINING_CHECKPOINTING_H_
#define COLONNADE_CLI_TRAINING_CHECKPOINTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/session/session.h"
#include "cli/training/train_flags.h"
#include "engine/checkpoint.h"
#include "engine/checkpoint_folder.h"
#include "engine/checkpoint_saver.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Returns the fields that decide how a run goes: the flags of network, data and optimiser as they are after defaults, in the
// words of the flags.
engine::RunFields RunFieldsOf(const TrainFlags& flags, const Session& session, const engine::LearningRatePolicy& rate,
                              const std::string& data);

// Whether a path that --resume takes is this folder of checkpoints, or one of those in it.
bool IsOrIsIn(const std::string& checkpoint, const std::string& folder);

// Returns a warning where a disk with `free` bytes cannot hold the `added` checkpoints of `bytes` that may exist before
// older ones are removed; else "".
std::string RoomNote(int64_t bytes, int64_t free, int64_t added);

class Checkpointing {
 public:
  // Returns the fields of a run that begins, or goes on, at `start`: what is over all of its steps depends on how many there
  // are.
  using FieldsFrom = std::function<absl::StatusOr<engine::RunFields>(const engine::RunPosition& start)>;

  // Takes the lock of --checkpoint. `metadata` are the weights'. FailedPrecondition where flags contradict each other or the
  // folder, before anything is loaded. Without any of the flags the result does nothing.
  static absl::StatusOr<std::unique_ptr<Checkpointing>> Open(const TrainFlags& flags, const Session& session,
                                                             engine::Metadata metadata, FieldsFrom fields_from);

  // Returns where the run begins: restores the newest good checkpoint of --resume, or leaves everything as it is.
  // InvalidArgument naming each field that differs, saved → current.
  absl::StatusOr<engine::RunPosition> Resume(engine::LoadedProgram& loaded);

  // Puts the run's flags beside its checkpoints; of one that `trains` no further, if none are there.
  absl::Status KeepConfig(bool trains) const;
  // Takes the memory of the copies, if there will be any. DataLoss where the disk has not room for a checkpoint of
  // `program`.
  absl::Status MakeRoom(const program::Program& program);

  void AddLoss(double loss);  // of each step, since a checkpoint states their mean
  // Notes what a test of the state after `step` steps found: the checkpoint of that step states it, also one from which the
  // run went on, and one is due where it is the best so far.
  void NoteTest(int64_t step, const engine::TestScores& test);
  // Whether one is to be saved now; what has become of the one before is told on stderr.
  bool IsDue(int64_t step);
  // Returns where the state is to be copied, after the checkpoint before was written. OutOfRange where a value of that one
  // was not finite.
  absl::StatusOr<engine::StateCopy*> BeginCopy();
  // Begins to write the copy, which is the state after `step` steps.
  void Save(int64_t step);
  // Copies and writes the state after the last step of a run, unless that checkpoint is there already.
  absl::Status SaveLast(int64_t step, const engine::LoadedProgram& loaded);
  // Waits for the one that was begun last, and tells what became of it.
  absl::Status Finish();

  const engine::RunFields& fields() const { return run_; }  // from where the run begins or goes on
  bool saves() const { return folder_ != nullptr; }
  bool resumed() const { return !resumed_from_.empty(); }
  // Null without --checkpoint.
  nlohmann::ordered_json Json(const std::optional<absl::Duration>& held_up) const;

 private:
  Checkpointing(const TrainFlags& flags, const Session& session) : flags_(flags), session_(session) {}
  absl::Status CheckFolder() const;
  absl::Status CheckFields(const engine::VerifiedCheckpoint& checkpoint, const program::Program& program) const;
  absl::StatusOr<engine::RunPosition> ResumeFrom(const engine::VerifiedCheckpoint& checkpoint,
                                                 engine::LoadedProgram& loaded);
  absl::StatusOr<engine::RunPosition> ResumeFromNewest(const std::string& folder, engine::LoadedProgram& loaded);
  absl::Status CheckNothingLater(int64_t step) const;
  absl::StatusOr<std::optional<engine::TestScores>> BestSavedTest() const;
  void ForgetBestTest();
  absl::Status Note(const std::optional<engine::SavedCheckpoint>& saved);
  // Note, and a warning of what is no reason to end a training.
  void Tell(const std::optional<engine::SavedCheckpoint>& saved);

  const TrainFlags& flags_;
  const Session& session_;
  engine::Metadata metadata_;
  CheckpointInterval interval_;
  FieldsFrom fields_from_;
  engine::RunFields run_;
  std::unique_ptr<engine::CheckpointFolder> folder_;  // null: nothing is saved
  std::unique_ptr<engine::CheckpointSaver> saver_;
  engine::RunPosition from_;  // where the run began
  std::string resumed_from_;
  absl::Time last_save_ = absl::InfinitePast();
  int64_t last_step_ = -1;                     // of the last checkpoint that is there
  absl::Status not_finite_;                    // OutOfRange since a checkpoint was not
  int64_t tested_step_ = -1, best_step_ = -1;  // of the last test; of the last one that was the best so far
  engine::TestScores test_;                    // the last
  std::optional<engine::TestScores> best_test_;
  struct Losses {
    double sum = 0;
    int64_t count = 0;
  };
  Losses losses_, losses_of_copy_;  // since the last copy was begun, and those of the copy that is being written
  int64_t saved_ = 0, failed_ = 0, bytes_ = 0;
  absl::Duration written_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_CHECKPOINTING_H_
