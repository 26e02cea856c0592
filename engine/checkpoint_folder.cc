#include "engine/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "engine/io/file.h"

namespace colonnade::engine {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step-", kLock[] = "lock", kAside[] = "damaged-", kReading[] = "reading";

// The step that a folder's name states, or -1 where no checkpoint is called so.
int64_t StepOf(const std::string& name) {
  int64_t step = -1;
  absl::string_view digits = name;
  const bool is_step = absl::ConsumePrefix(&digits, kPrefix) && absl::SimpleAtoi(digits, &step) && step >= 0 &&
                       name == absl::StrFormat("%s%09d", kPrefix, step);
  return is_step ? step : -1;
}

// Whether a file is of a checkpoint, or a temporary one for such a file.
bool IsOurs(const std::string& name) {
  const auto is_of = [&name](const std::string& file) { return name == file || IsTemporaryFor(name, file); };
  return is_of(kManifestName) || is_of(kReading) ||
         std::any_of(std::begin(kStateKinds), std::end(kStateKinds),
                     [&](StateKind kind) { return is_of(FileNameOf(kind)); });
}

// Removes what of `folder` is ours, and the folder if nothing else is in it; as far as it goes.
void RemoveOurs(const std::string& folder) {
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
    std::error_code stays;
    if (IsOurs(it->path().filename().string())) fs::remove(it->path(), stays);
  }
  fs::remove(folder, ignored);
}

// The steps of all folders that are called like a checkpoint's, complete ones or the others.
absl::StatusOr<std::vector<int64_t>> Steps(const std::string& path, bool complete) {
  std::vector<int64_t> steps;
  std::error_code error;
  fs::directory_iterator it(path, error), end;
  for (; !error && it != end; it.increment(error)) {
    const int64_t step = StepOf(it->path().filename().string());
    if (step < 0 || !it->is_directory(error)) continue;
    const bool has_manifest = fs::exists(it->path() / kManifestName, error);
    if (error) break;
    if (has_manifest == complete) steps.push_back(step);
  }
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::NotFoundError(absl::StrFormat("cannot read %s: expected a folder of checkpoints, found none", path));
  }
  if (error) return absl::DataLossError(absl::StrFormat("cannot read %s: %s", path, error.message()));
  std::sort(steps.begin(), steps.end());
  return steps;
}

// The file of a lock that was taken, or that the file system does not know.
struct LockFile {
  int descriptor = -1;
  bool is_locked = false;
};

// The first bytes of the lock are the number of the process that has it.
absl::StatusOr<LockFile> TakeLock(const std::string& path, const FileCalls& calls) {
  const std::string name = absl::StrCat(path, "/", kLock);
  const int lock = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock < 0) return SystemError("write", name);
  const absl::StatusOr<Lock> taken = TryToLock(lock, name, calls);
  if (taken.ok() && *taken != Lock::kHeldByAnother) {
    // Where this fails the lock holds all the same; another process is then told less.
    const std::string process = absl::StrCat(::getpid(), "\n");
    [[maybe_unused]] const bool tells = ::ftruncate(lock, 0) == 0 && ::write(lock, process.data(), process.size()) > 0;
    return LockFile{lock, *taken == Lock::kTaken};
  }
  char holder[32] = {};
  const ssize_t count = ::read(lock, holder, sizeof(holder) - 1);
  ::close(lock);
  RETURN_IF_ERROR(taken.status());
  const std::string who = count > 0 ? absl::StrCat("process ", absl::StripAsciiWhitespace(holder)) : "another process";
  return absl::DataLossError(
      absl::StrFormat("%s: expected a folder that no other run writes to, found %s writing there; "
                      "give each run a folder of its own",
                      path, who));
}

// Whether a checkpoint says how good it is.
bool IsJudged(const Manifest& manifest) { return manifest.test.has_value() || std::isfinite(manifest.position.loss); }

// By their tests, a tested one before others; by the mean loss of training where neither was tested. REQUIRES: both are
// judged.
bool IsBetterCheckpoint(const Manifest& a, const Manifest& b) {
  if (a.test.has_value() && b.test.has_value()) return IsBetterTest(*a.test, *b.test);
  if (a.test.has_value() || b.test.has_value()) return a.test.has_value();
  return a.position.loss < b.position.loss;
}

}  // namespace

std::string CheckpointPath(const std::string& path, int64_t step) {
  return absl::StrFormat("%s/%s%09d", path, kPrefix, step);
}

absl::StatusOr<std::vector<int64_t>> CheckpointSteps(const std::string& path) { return Steps(path, /*complete=*/true); }

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(const std::string& path,
                                                                         const CheckpointFolderOptions& options) {
  const FileCalls system_calls;
  const FileCalls& calls = options.calls != nullptr ? *options.calls : system_calls;
  RETURN_IF_ERROR(MakeFolders(path, calls));
  ASSIGN_OR_RETURN(const LockFile lock, TakeLock(path, calls));
  std::unique_ptr<CheckpointFolder> folder(new CheckpointFolder(path, options, lock.descriptor, lock.is_locked));
  ASSIGN_OR_RETURN(std::vector<int64_t> half_written, Steps(path, /*complete=*/false));
  for (int64_t step : half_written) (void)folder->Remove(step);  // what stays is in nobody's way
  return folder;
}

CheckpointFolder::CheckpointFolder(std::string path, const CheckpointFolderOptions& options, int lock, bool is_locked)
    : path_(std::move(path)),
      options_(options),
      calls_(options.calls != nullptr ? *options.calls : system_calls_),
      lock_(lock),
      is_locked_(is_locked) {}

CheckpointFolder::~CheckpointFolder() { ::close(lock_); }

std::string CheckpointFolder::PathOf(int64_t step) const { return CheckpointPath(path_, step); }

absl::StatusOr<int64_t> CheckpointFolder::FreeBytes() const {
  struct statvfs disk;
  if (::statvfs(path_.c_str(), &disk) != 0) return SystemError("look at", path_);
  return static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
}

absl::StatusOr<int64_t> CheckpointFolder::MostAdded() const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CheckpointSteps(path_));
  return std::max<int64_t>(options_.keep + 2 - static_cast<int64_t>(steps.size()), 0);
}

absl::Status CheckpointFolder::CheckFreeSpace(int64_t bytes) const {
  ASSIGN_OR_RETURN(const int64_t free, FreeBytes());
  if (free >= bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s: expected room for a checkpoint of %.1f MB, found %.1f MB free; make room or name a folder elsewhere", path_,
      static_cast<double>(bytes) / 1e6, static_cast<double>(free) / 1e6));
}

// The lock is a file's, and goes with it where somebody removes that, or the folder; it is taken anew where nobody else has.
absl::Status CheckpointFolder::KeepLocked() {
  const std::string name = absl::StrCat(path_, "/", kLock);
  struct stat held, there;
  const bool is_there = ::stat(name.c_str(), &there) == 0;
  std::error_code ignored;
  if (!is_there && errno == ENOENT && fs::is_directory(path_, ignored)) {
    ASSIGN_OR_RETURN(const LockFile lock, TakeLock(path_, calls_));
    ::close(std::exchange(lock_, lock.descriptor));
    is_locked_ = lock.is_locked;
    return absl::OkStatus();
  }
  if (!is_there || ::fstat(lock_, &held) != 0) return absl::OkStatus();  // whatever is wrong, writing says more of it
  if (held.st_dev == there.st_dev && held.st_ino == there.st_ino) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: expected the folder that this run has locked, found one that was made anew in its place; "
                      "give each run a folder of its own",
                      path_));
}

absl::Status CheckpointFolder::Save(const Manifest& manifest, const StateCopy& state) {
  RETURN_IF_ERROR(KeepLocked());
  const int64_t step = manifest.position.step;
  const absl::Status status = WriteCheckpoint(PathOf(step), manifest, state, calls_);
  std::error_code ignored;
  const bool is_half = !status.ok() && !fs::exists(fs::path(PathOf(step)) / kManifestName, ignored);
  if (is_half) RemoveOurs(PathOf(step));
  return status;
}

absl::Status CheckpointFolder::StateTest(int64_t step, const TestScores& test) {
  RETURN_IF_ERROR(KeepLocked());
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(PathOf(step)));
  if (manifest.test == test) return absl::OkStatus();
  manifest.test = test;
  return WriteManifest(PathOf(step), manifest, calls_);
}

// The manifest goes first, for good, so that what is left at any moment is a checkpoint or is none. Files of others stay.
absl::Status CheckpointFolder::Remove(int64_t step) {
  const std::string folder = PathOf(step), manifest = absl::StrCat(folder, "/", kManifestName);
  if (calls_.Unlink(manifest.c_str()) != 0 && errno != ENOENT) return SystemError("remove", manifest);
  RETURN_IF_ERROR(SyncFolder(folder, calls_));
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!IsOurs(it->path().filename().string())) continue;
    if (calls_.Unlink(it->path().c_str()) != 0) return SystemError("remove", it->path());
  }
  return calls_.Rmdir(folder.c_str()) == 0 ? absl::OkStatus() : SystemError("remove folder", folder);
}

absl::StatusOr<std::optional<Manifest>> CheckpointFolder::Best() const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CheckpointSteps(path_));
  std::optional<Manifest> best;
  for (int64_t step : steps) {
    absl::StatusOr<Manifest> manifest = ReadManifest(PathOf(step));
    if (!manifest.ok() || !IsJudged(*manifest)) continue;
    if (!best.has_value() || IsBetterCheckpoint(*manifest, *best)) best = *std::move(manifest);
  }
  return best;
}

absl::Status CheckpointFolder::Retire() {
  RETURN_IF_ERROR(KeepLocked());
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CheckpointSteps(path_));
  ASSIGN_OR_RETURN(const std::optional<Manifest> best, Best());
  absl::Status status;
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) < steps.size(); ++i) {
    if (!best.has_value() || steps[i] != best->position.step) status.Update(Remove(steps[i]));
  }
  return status;
}

std::string CheckpointFolder::ReadingPathOf(int64_t step) const { return absl::StrCat(PathOf(step), "/", kReading); }

int CheckpointFolder::DeathsOfReaders(int64_t step) const {
  constexpr int64_t kMostBytes = 16;
  const absl::StatusOr<std::string> text = ReadFile(ReadingPathOf(step), kMostBytes);
  int deaths = 0;
  return text.ok() && absl::SimpleAtoi(*text, &deaths) ? std::max(deaths, 0) : 0;
}

ReadingMark::ReadingMark(const CheckpointFolder& folder, int64_t step) : folder_(folder), path_(folder.ReadingPathOf(step)) {
  const std::string deaths = absl::StrCat(folder.DeathsOfReaders(step) + 1, "\n");
  (void)ReplaceFile(
      path_, [&](Append append) { return append(deaths); }, folder_.calls_);
}

ReadingMark::~ReadingMark() { (void)folder_.calls_.Unlink(path_.c_str()); }

absl::Status CheckpointFolder::SetAside(int64_t step) {
  const std::string from = PathOf(step);
  for (int n = 0;; ++n) {
    const std::string to =
        absl::StrCat(path_, "/", kAside, fs::path(from).filename().string(), n == 0 ? "" : absl::StrCat("-", n));
    std::error_code ignored;
    if (fs::exists(to, ignored)) continue;
    if (calls_.Rename(from.c_str(), to.c_str()) != 0) return SystemError("rename", from);
    return SyncFolder(path_, calls_);
  }
}

}  // namespace colonnade::engine
