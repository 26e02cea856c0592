#include "cli/session/named_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/checkpoint.h"
#include "engine/checkpoint_folder.h"
#include "engine/io/file.h"

namespace colonnade::cli {
namespace {

namespace fs = std::filesystem;

// The same for all paths to one file, be it there or not: files are written behind links.
std::string PlaceOf(const std::string& path) {
  std::error_code error;
  fs::path place = engine::BehindLinks(fs::absolute(path, error).string());
  const fs::path canonical = fs::weakly_canonical(place, error);
  place = error ? place.lexically_normal() : canonical;
  if (place.filename().empty()) place = place.parent_path();  // "runs/" and "runs"
  return place.string();
}

absl::Status CheckNoPartOfACheckpoint(const NamedFile& file) {
  const fs::path place = PlaceOf(file.path), folder = place.parent_path();
  std::error_code ignored;
  if (fs::exists(folder / engine::kManifestName, ignored)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: expected a file outside of checkpoints, found %s, which would damage that in %s; name another place", file.flag,
        file.path, folder.string()));
  }
  if (place.filename() != "lock" && place.filename() != "config.toml") return absl::OkStatus();
  const absl::StatusOr<std::vector<int64_t>> steps = engine::CheckpointSteps(folder.string());
  if (!steps.ok() || steps->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected a name that a folder of checkpoints does not need itself, found %s; name another file",
                      file.flag, file.path));
}

// Results and what a flag writes would both be in it, one over the other.
absl::Status CheckNotTheOutput(const NamedFile& file) {
  struct stat output, place;
  if (::fstat(STDOUT_FILENO, &output) != 0 || !S_ISREG(output.st_mode) || ::stat(file.path.c_str(), &place) != 0 ||
      output.st_dev != place.st_dev || output.st_ino != place.st_ino) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: expected another file than the standard output goes to, found %s; name another one", file.flag, file.path));
}

// A file that is replaced needs no permission of its own, but who took that away from a file of theirs meant to keep it.
absl::Status CheckNotProtected(const NamedFile& file) {
  struct stat place;
  if (::stat(file.path.c_str(), &place) != 0 || !S_ISREG(place.st_mode) || place.st_uid != ::geteuid() || ::geteuid() == 0 ||
      (place.st_mode & S_IWUSR) != 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: cannot write %s, which is write-protected; name another file, or chmod u+w it", file.flag, file.path));
}

// The first bytes of a file; none where it is no regular file, or is empty.
std::string FirstBytesOf(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return "";
  std::string bytes(kBytesOfKind, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), kBytesOfKind);
  bytes.resize(std::max<size_t>(static_cast<size_t>(file.gcount()), 1));  // what cannot be read is of no kind
  return bytes;
}

absl::Status CheckReplacesItsKind(const NamedFile& file) {
  const std::string bytes = FirstBytesOf(file.path);
  if (bytes.empty() || BeginsAs(file.kind, bytes)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: expected a new file or %s, found %s, which is something else; name another file", file.flag,
                      NameOf(file.kind), file.path));
}

absl::Status CheckIsAName(const NamedFile& file) {
  if (file.path != "-") return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: expected the name of a file, found -, and nothing is written to the standard output in its place; name a file",
      file.flag));
}

absl::Status CheckPlacesDiffer(const std::vector<NamedFile>& written, const std::vector<NamedFile>& others) {
  std::map<std::string, std::string> flags;  // by place
  for (const NamedFile& other : others) {
    if (!other.path.empty()) flags.emplace(PlaceOf(other.path), other.flag);
  }
  for (const NamedFile& file : written) {
    if (file.path.empty()) continue;
    const auto [known, is_new] = flags.emplace(PlaceOf(file.path), file.flag);
    if (is_new) continue;
    return absl::FailedPreconditionError(absl::StrFormat("%s: expected a file of its own, found %s, which is that of %s",
                                                         file.flag, file.path, known->second));
  }
  return absl::OkStatus();
}

}  // namespace

std::string IfFile(const std::string& name) {
  std::error_code error;
  return fs::is_regular_file(name, error) ? name : "";
}

absl::Status CheckWrittenFiles(const std::vector<NamedFile>& written, const std::vector<NamedFile>& others) {
  RETURN_IF_ERROR(CheckPlacesDiffer(written, others));
  for (const NamedFile& file : written) {
    if (file.path.empty()) continue;
    RETURN_IF_ERROR(CheckIsAName(file));
    RETURN_IF_ERROR(CheckNoPartOfACheckpoint(file));
    RETURN_IF_ERROR(CheckNotTheOutput(file));
    RETURN_IF_ERROR(CheckNotProtected(file));
    RETURN_IF_ERROR(CheckReplacesItsKind(file));
    RETURN_IF_ERROR(engine::CheckWritable(file.path));
  }
  return absl::OkStatus();
}

absl::Status CheckRoomFor(const NamedFile& file, int64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(fs::path(PlaceOf(file.path)).parent_path(), error);
  if (error || space.available >= static_cast<uintmax_t>(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: expected room for %.1f MB beside %s, found %.1f MB free; name another place", file.flag,
                      static_cast<double>(bytes) / 1e6, file.path, static_cast<double>(space.available) / 1e6));
}

}  // namespace colonnade::cli
