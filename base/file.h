// Files that are read whole, and that are replaced whole or not at all. Any thread.
//
// Errors carry codes that the command line turns into exit codes: NotFound (66) where a file is missing, InvalidArgument
// (65) where its contents are wrong, DataLoss (74) where reading or writing fails. A process that leaves SIGXFSZ as it is
// ends where a file grows beyond the limit of the shell; ignored, it is DataLoss.
#ifndef COLONNADE_BASE_FILE_H_
#define COLONNADE_BASE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_calls.h"

namespace colonnade::base {

// Appends bytes to the file that ReplaceFile writes.
using Append = absl::FunctionRef<absl::Status(absl::string_view)>;

// Writes what `write` appends to a file beside `path`, syncs it, renames it to `path` and syncs the directory. Where
// anything fails, `path` is as it was before, and nothing is left beside it; but where only the directory cannot be synced,
// the new file is there and may not outlast a loss of power. The next call removes what a killed process left. Links are
// followed, also to a file that is not there yet; owner and mode are those of the file replaced.
absl::Status ReplaceFile(const std::string& path, absl::FunctionRef<absl::Status(Append)> write,
                         const FileCalls& calls = FileCalls());
absl::Status ReplaceFile(const std::string& path, absl::string_view contents);

// Returns whether `name` is that of a temporary file of ReplaceFile for the file called `final_name`.
bool IsTemporaryFor(absl::string_view name, absl::string_view final_name);

// Returns where ReplaceFile writes: `path`, or what it leads to where it is a link, be that there or not.
std::string BehindLinks(const std::string& path);

// Returns Ok if a file could be put at `path` now, else DataLoss that says why not. To be called before long work.
absl::Status CheckWritable(const std::string& path);

// Reads all of a regular file of at most `limit_bytes`; it reads nothing of a folder, a device or a pipe.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes);

// Returns a descriptor of a regular file to read; the caller closes it. Errors as ReadFile's.
absl::StatusOr<int> OpenToRead(const std::string& path);

// Makes a folder where it is missing, and syncs the folder that holds it. DataLoss where that fails.
absl::Status MakeFolder(const std::string& folder, const FileCalls& calls = FileCalls());
// Does the same, first for the folders above it.
absl::Status MakeFolders(const std::string& folder, const FileCalls& calls = FileCalls());

// Makes what was created, renamed or removed in a folder outlast a loss of power.
absl::Status SyncFolder(const std::string& folder, const FileCalls& calls = FileCalls());

// Tries to lock an open file for this process alone, for as long as it is open. kNone where its file system has no locks, as
// NFS may: no process then holds a lock, and none is kept out. DataLoss where the system fails otherwise.
enum class Lock { kTaken, kHeldByAnother, kNone };
absl::StatusOr<Lock> TryToLock(int file, const std::string& path, const FileCalls& calls = FileCalls());
// Returns what users should know of a file or folder without a lock.
std::string NoLockNote(const std::string& path);

// Returns DataLoss with the text of errno: "cannot write FILE: No space left on device".
absl::Status SystemError(absl::string_view what, const std::string& path);
// Does the same of what was to be read: NotFound where nothing is called so.
absl::Status ReadError(absl::string_view what, const std::string& path);

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_FILE_H_
