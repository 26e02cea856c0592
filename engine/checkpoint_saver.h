// Checkpoints saved beside training: a copy of the state is written by a thread while training goes on. One checkpoint is
// written at a time.
#ifndef COLONNADE_ENGINE_CHECKPOINT_SAVER_H_
#define COLONNADE_ENGINE_CHECKPOINT_SAVER_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/checkpoint_folder.h"

namespace colonnade::engine {

struct SavedCheckpoint {
  absl::Status status, retired;  // of writing it; of removing those that need not be kept
  int64_t step = 0, bytes = 0;
  absl::Duration written;  // how long that took
};

// Thread rule: one host thread, the one that drives the backend.
class CheckpointSaver {
 public:
  // `folder` must outlive the saver.
  explicit CheckpointSaver(CheckpointFolder& folder) : folder_(folder) {}
  ~CheckpointSaver() { (void)Await(); }

  // Returns what Begin writes. REQUIRES: none is being written (Await).
  StateCopy& copy() { return copy_; }
  // Begins to write the copy; where the system gives no thread, writes it before it returns. Where a value is not finite,
  // nothing is written, and the result is OutOfRange naming parameter and element. REQUIRES: none is being written.
  void Begin(const Manifest& manifest);

  // Return, once, what became of the checkpoint that was begun last; nothing where none was begun. Poll returns nothing
  // while it is being written, too; Await waits.
  std::optional<SavedCheckpoint> Poll();
  std::optional<SavedCheckpoint> Await();

 private:
  void Write(const Manifest& manifest);

  CheckpointFolder& folder_;
  StateCopy copy_;
  SavedCheckpoint result_;
  bool is_begun_ = false;  // and not awaited
  std::thread thread_;
  std::atomic<bool> written_{false};  // result_ is the host's again
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CHECKPOINT_SAVER_H_
