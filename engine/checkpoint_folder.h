// The checkpoints of one run: a folder that one process writes to, of which the last and the best are kept.
//
// Thread rule: one thread at a time. While a CheckpointSaver writes, only its thread may use the folder, but for `path` and
// `PathOf`, which anyone may call.
#ifndef COLONNADE_ENGINE_CHECKPOINT_FOLDER_H_
#define COLONNADE_ENGINE_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_calls.h"
#include "engine/checkpoint.h"
#include "engine/state.h"

namespace colonnade::engine {

struct CheckpointFolderOptions {
  int keep = 3;  // the last so many, at least 1, and beside them the best: by test, else by training loss
  base::FileCalls const* calls = nullptr;  // null: the system's own
};

class CheckpointFolder {
 public:
  // Makes the folder where it is missing, takes its lock until the result goes, and removes what a killed process left half
  // written. DataLoss naming the process where another one has the lock, or where nothing can be written there.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& path,
                                                                const CheckpointFolderOptions& options);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  bool is_locked() const { return is_locked_; }  // else its file system has no locks
  std::string PathOf(int64_t step) const;

  // Returns how many bytes of its disk are free for this user.
  absl::StatusOr<int64_t> FreeBytes() const;
  // Returns DataLoss where the disk has not room for one checkpoint of so many bytes.
  absl::Status CheckFreeSpace(int64_t bytes) const;
  // Returns how many checkpoints may be added to those that are there before some are removed: those that are kept, the
  // best, and the one that is written before an older one goes.
  absl::StatusOr<int64_t> MostAdded() const;

  // Writes the checkpoint of manifest.position.step in the place of one that is there. Where that fails, that one is lost,
  // and those of other steps are untouched. DataLoss, and nothing is touched, where the folder was made anew since Open:
  // what is there now is another's.
  absl::Status Save(const Manifest& manifest, const StateCopy& state);
  // Makes the checkpoint of `step`, which is there, state what a test of it found.
  absl::Status StateTest(int64_t step, const TestScores& test);
  // Returns the manifest of the best of those that are there: by test, else by training loss; nothing where none tells.
  absl::StatusOr<std::optional<Manifest>> Best() const;
  // Removes those that need not be kept; an error where one could not be, which is no reason not to go on.
  absl::Status Retire();

  // Returns how many processes have died one after another while they read the checkpoint of `step` (ReadingMark).
  int DeathsOfReaders(int64_t step) const;

  // Sets a damaged checkpoint aside, so that it is none of this folder's any more: "damaged-step-000001200".
  absl::Status SetAside(int64_t step);

 private:
  CheckpointFolder(std::string path, const CheckpointFolderOptions& options, int lock, bool is_locked);
  friend class ReadingMark;
  std::string ReadingPathOf(int64_t step) const;
  absl::Status Remove(int64_t step);
  absl::Status KeepLocked();

  const std::string path_;
  const CheckpointFolderOptions options_;
  const base::FileCalls system_calls_;
  const base::FileCalls& calls_;
  int lock_;
  bool is_locked_;
};

// Marks a checkpoint as one that is being read, as long as it lives. A process that dies meanwhile leaves the mark, and so
// the next one knows that this checkpoint may be what it died of. Where the mark cannot be written nothing is counted.
class ReadingMark {
 public:
  ReadingMark(const CheckpointFolder& folder, int64_t step);
  ~ReadingMark();
  ReadingMark(const ReadingMark&) = delete;
  ReadingMark& operator=(const ReadingMark&) = delete;

 private:
  const CheckpointFolder& folder_;
  const std::string path_;
};

// Returns the steps of the checkpoints in a folder, ascending: those with a manifest, whether or not all is well with them.
// NotFound where there is no such folder.
absl::StatusOr<std::vector<int64_t>> CheckpointSteps(const std::string& path);
std::string CheckpointPath(const std::string& path, int64_t step);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CHECKPOINT_FOLDER_H_
