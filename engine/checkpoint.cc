#include "engine/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/io/xxh3.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {
namespace {

using Json = nlohmann::ordered_json;
using program::DType;

constexpr char kFormat[] = "colonnade checkpoint";
constexpr char kChecksumKey[] = "\"xxh3\": \"", kNoDigits[] = "0000000000000000";
constexpr size_t kDigits = sizeof(kNoDigits) - 1;
constexpr int64_t kMostManifestBytes = int64_t{1} << 28;

// Weights, then what else is kept of them, in the order of the kinds.
bool AreOurs(const std::vector<CheckpointFile>& files) {
  size_t next = 0;
  for (StateKind kind : kStateKinds) {
    if (next < files.size() && files[next].name == FileNameOf(kind)) ++next;
    if (next == 0) return false;
  }
  return next == files.size();
}

absl::Status Damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; the checkpoint is damaged"));
}

// Where the manifest's own checksum stands: the first of its keys that is so called.
size_t ChecksumAt(absl::string_view json) {
  const size_t key = json.find(kChecksumKey);
  return key == absl::string_view::npos ? key : key + sizeof(kChecksumKey) - 1;
}

absl::Status CheckManifestSum(absl::string_view json) {
  const size_t at = ChecksumAt(json);
  if (at == absl::string_view::npos || json.size() < at + kDigits) return Damaged("expected a checksum, found none");
  std::string text(json);
  text.replace(at, kDigits, kNoDigits);
  const std::string expected = Xxh3Text(text), found(json.substr(at, kDigits));
  if (found == expected) return absl::OkStatus();
  return Damaged(absl::StrFormat("expected checksum %s, found %s", expected, found));
}

Json ToJson(const CheckpointFile& file) {
  Json tensors = Json::array();
  for (const CheckpointTensor& t : file.tensors) {
    tensors.push_back({{"name", t.name},
                       {"dtype", program::Name(t.dtype)},
                       {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                       {"xxh3", t.xxh3}});
  }
  return {{"name", file.name}, {"bytes", file.bytes}, {"header_xxh3", file.header_xxh3}, {"tensors", tensors}};
}

// Throws Json::exception where it is none: json.get<int64_t>() would round a fraction, and know no bounds.
int64_t CountFromJson(const Json& json) {
  const uint64_t count = json.get_ref<const Json::number_unsigned_t&>();
  return static_cast<int64_t>(std::min<uint64_t>(count, std::numeric_limits<int64_t>::max()));
}

CheckpointFile FileFromJson(const Json& json) {
  CheckpointFile file{
      .name = json.at("name"), .bytes = CountFromJson(json.at("bytes")), .header_xxh3 = json.at("header_xxh3")};
  for (const Json& t : json.at("tensors")) {
    program::Shape shape;
    for (const Json& extent : t.at("shape")) shape.push_back(CountFromJson(extent));
    file.tensors.push_back({.name = t.at("name"),
                            .dtype = t.at("dtype") == program::Name(DType::kF64) ? DType::kF64 : DType::kF32,
                            .shape = shape,
                            .xxh3 = t.at("xxh3")});
  }
  return file;
}

// Throws Json::exception where a key is missing or of another type.
Manifest FromJson(const Json& json) {
  Manifest manifest{.position = {.step = CountFromJson(json.at("step")), .sample = CountFromJson(json.at("sample"))},
                    .plan = json.at("plan")};
  if (!json.at("loss").is_null()) manifest.position.loss = json.at("loss");
  if (json.contains("test")) manifest.test = {.top1 = json["test"].at("top1"), .loss = json["test"].at("loss")};
  for (const auto& [field, value] : json.at("run").items()) manifest.run.emplace_back(field, value);
  for (const Json& file : json.at("files")) manifest.files.push_back(FileFromJson(file));
  return manifest;
}

// Refuses what FromJson could not read back.
absl::Status CheckReadable(const Manifest& manifest) {
  const RunPosition& position = manifest.position;
  if (position.step < 0 || position.sample < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a checkpoint's position: expected a step and a sample of at least 0, found step %d and sample %d",
                        position.step, position.sample));
  }
  const std::optional<TestScores>& test = manifest.test;
  if (!test.has_value() || (std::isfinite(test->top1) && std::isfinite(test->loss))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "a checkpoint's test: expected a finite top-1 accuracy and loss, found %g and %g", test->top1, test->loss));
}

// What was a checkpoint is none while its files are replaced.
absl::Status Revoke(const std::string& folder, const FileCalls& calls) {
  if (calls.Unlink(absl::StrCat(folder, "/", kManifestName).c_str()) == 0) return SyncFolder(folder, calls);
  return errno == ENOENT ? absl::OkStatus() : SystemError("remove", absl::StrCat(folder, "/", kManifestName));
}

absl::StatusOr<CheckpointFile> WriteKind(const std::string& folder, StateKind kind, const StateCopy& state,
                                         const Metadata& metadata, const FileCalls& calls) {
  const std::vector<TensorView> tensors = state.views(kind);
  ASSIGN_OR_RETURN(std::string header, SafetensorsHeader(tensors, metadata));
  CheckpointFile file{
      .name = FileNameOf(kind), .bytes = static_cast<int64_t>(header.size()), .header_xxh3 = Xxh3Text(header)};
  const auto write = [&](Append append) {
    absl::Status s = append(header);
    for (const TensorView& tensor : tensors) {
      const absl::string_view bytes(tensor.bytes.data(), tensor.bytes.size());
      if (s.ok()) s = append(bytes);
      file.bytes += static_cast<int64_t>(bytes.size());
      file.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, Xxh3Text(bytes)});
    }
    return s;
  };
  RETURN_IF_ERROR(ReplaceFile(absl::StrCat(folder, "/", file.name), write, calls));
  return file;
}

absl::Status CheckTensor(const TensorView& found, const CheckpointTensor& stated, int64_t first_byte) {
  if (found.name != stated.name || found.dtype != stated.dtype || found.shape != stated.shape) {
    return Damaged(absl::StrFormat("expected tensor \"%s\" %s, found \"%s\" %s", stated.name,
                                   program::ToString(stated.shape), found.name, program::ToString(found.shape)));
  }
  const std::string xxh3 = Xxh3Text({found.bytes.data(), found.bytes.size()});
  if (xxh3 == stated.xxh3) return absl::OkStatus();
  return Damaged(absl::StrFormat("tensor \"%s\", bytes %d to %d: expected XXH3 %s, found %s", stated.name, first_byte,
                                 first_byte + static_cast<int64_t>(found.bytes.size()), stated.xxh3, xxh3));
}

bool Keeps(const program::Program& program, StateKind kind) {
  return std::any_of(program.parameters.begin(), program.parameters.end(),
                     [&](const program::Parameter& parameter) { return !parameter.pieces(kind).empty(); });
}

// Returns what the file has, where that is what the manifest states.
absl::StatusOr<TensorFile> CheckFile(absl::string_view bytes, const CheckpointFile& stated, const OnRead& on_read) {
  if (static_cast<int64_t>(bytes.size()) != stated.bytes) {
    return Damaged(absl::StrFormat("expected %d bytes, found %d", stated.bytes, bytes.size()));
  }
  ASSIGN_OR_RETURN(TensorFile file, ViewFile(bytes, Halves::kAreRefused, StatedChecksum::kIsIgnored));
  const std::vector<TensorView>& found = file.tensors;
  const absl::string_view header = bytes.substr(0, found.empty() ? bytes.size() : found[0].bytes.data() - bytes.data());
  if (Xxh3Text(header) != stated.header_xxh3) {
    return Damaged(absl::StrFormat("bytes 0 to %d, the header: expected XXH3 %s, found %s", header.size(),
                                   stated.header_xxh3, Xxh3Text(header)));
  }
  if (found.size() != stated.tensors.size()) {
    return Damaged(absl::StrFormat("expected %s, found %d", base::Counted(stated.tensors.size(), "tensor"), found.size()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    RETURN_IF_ERROR(CheckTensor(found[i], stated.tensors[i], found[i].bytes.data() - bytes.data()));
    if (on_read) on_read(static_cast<int64_t>(found[i].bytes.size()));
  }
  return file;
}

const char* MomentsName(StateKind kind) { return kind == StateKind::kMomentum ? "momenta" : "second moments"; }

// Checks that an optimiser's state of `kind` is there where the Program keeps it, and not otherwise; CheckState would name a
// tensor of it.
absl::Status CheckMoments(const program::Program& program, StateKind kind, bool has_them) {
  const bool keeps_them = Keeps(program, kind);
  if (has_them == keeps_them) return absl::OkStatus();
  const char* moments = MomentsName(kind);
  const std::string what =
      keeps_them ? absl::StrFormat("expected %s, which the Program's optimiser keeps, found none", moments)
                 : absl::StrFormat("expected no %s, which the Program's optimiser does not keep, found some", moments);
  return absl::InvalidArgumentError(absl::StrCat(what, "; another optimiser wrote the checkpoint"));
}

// An optimiser's state has the names and shapes of weights. Averages are weights.
absl::Status CheckHasWeights(const std::string& path, const std::filesystem::path& file) {
  for (StateKind kind : {StateKind::kMomentum, StateKind::kSecondMoment}) {
    if (file.filename() != FileNameOf(kind)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: expected weights, found %s; %s has the weights of this checkpoint", path, MomentsName(kind),
                        (file.parent_path() / FileNameOf(StateKind::kValue)).string()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FileNameOf(StateKind kind) {
  return absl::StrCat(kind == StateKind::kValue ? "weights" : program::Name(kind), ".safetensors");
}

bool IsBetterTest(const TestScores& a, const TestScores& b) {
  return a.top1 > b.top1 || (a.top1 == b.top1 && a.loss < b.loss);
}

int64_t Manifest::Bytes() const {
  return absl::c_accumulate(files, int64_t{0}, [](int64_t sum, const CheckpointFile& file) { return sum + file.bytes; });
}

std::string ToJson(const Manifest& manifest) {
  Json run = Json::object(), files = Json::array();
  for (const auto& [field, value] : manifest.run) run[field] = value;
  for (const CheckpointFile& file : manifest.files) files.push_back(ToJson(file));
  const RunPosition& position = manifest.position;
  Json json = {{"format", kFormat},         {"version", kCheckpointVersion},
               {"xxh3", kNoDigits},         {"step", position.step},
               {"sample", position.sample}, {"loss", std::isfinite(position.loss) ? Json(position.loss) : Json()}};
  if (manifest.test.has_value()) json["test"] = {{"top1", manifest.test->top1}, {"loss", manifest.test->loss}};
  json.update({{"run", run}, {"plan", manifest.plan}, {"files", files}});
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string sum = Xxh3Text(text);
  return text.replace(ChecksumAt(text), kDigits, sum);
}

absl::StatusOr<Manifest> ManifestFromJson(absl::string_view text) {
  RETURN_IF_ERROR(CheckManifestSum(text));  // in every version
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", Json()) != kFormat) return Damaged("expected the manifest of a checkpoint");
  if (const Json version = json.value("version", Json()); version != kCheckpointVersion) {
    return absl::UnimplementedError(
        absl::StrFormat("expected a checkpoint of version %d, found version %s; use the Colonnade "
                        "that wrote it, or a newer one",
                        kCheckpointVersion, version.dump()));
  }
  try {
    Manifest manifest = FromJson(json);
    if (AreOurs(manifest.files)) return manifest;
    return Damaged(absl::StrFormat("expected %s and what an optimiser keeps, found %s", FileNameOf(StateKind::kValue),
                                   base::Counted(manifest.files.size(), "file")));
  } catch (const Json::exception& error) {
    return Damaged(absl::StrCat("the manifest is not as it should be: ", error.what()));
  }
}

absl::Status WriteCheckpoint(const std::string& folder, Manifest manifest, const StateCopy& state, const FileCalls& calls) {
  RETURN_IF_ERROR(CheckReadable(manifest));
  // Not those above it: the folder of the run is not made anew without its lock.
  RETURN_IF_ERROR(MakeFolder(folder, calls));
  RETURN_IF_ERROR(Revoke(folder, calls));
  manifest.files.clear();
  for (StateKind kind : kStateKinds) {
    if (kind != StateKind::kValue && state.views(kind).empty()) continue;
    const Metadata& metadata = kind == StateKind::kValue ? manifest.metadata : Metadata();
    ASSIGN_OR_RETURN(CheckpointFile file, WriteKind(folder, kind, state, metadata, calls));
    manifest.files.push_back(std::move(file));
  }
  return WriteManifest(folder, manifest, calls);
}

absl::Status WriteManifest(const std::string& folder, const Manifest& manifest, const FileCalls& calls) {
  RETURN_IF_ERROR(CheckReadable(manifest));
  const std::string json = ToJson(manifest);
  return ReplaceFile(
      absl::StrCat(folder, "/", kManifestName), [&json](Append append) { return append(json); }, calls);
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  ASSIGN_OR_RETURN(std::string json, ReadFile(path, kMostManifestBytes));
  absl::StatusOr<Manifest> manifest = ManifestFromJson(json);
  if (!manifest.ok()) return WithContext(manifest.status(), path);
  return manifest;
}

absl::Status VerifyCheckpoint(const std::string& folder, const OnRead& on_read) {
  return VerifiedCheckpoint::Open(folder, on_read).status();
}

absl::Status VerifyFileOfCheckpoint(const std::string& path, absl::string_view bytes) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::weakly_canonical(path, ignored);
  const std::string beside = (file.parent_path() / kManifestName).string();
  const absl::StatusOr<std::string> json = ReadFile(beside, kMostManifestBytes);
  if (!json.ok() || !absl::StrContains(*json, kFormat)) return absl::OkStatus();  // none, or another program's
  const absl::StatusOr<Manifest> manifest = ManifestFromJson(*json);
  RETURN_IF_ERROR(WithContext(manifest.status(), beside));
  for (const CheckpointFile& stated : manifest->files) {
    if (stated.name != file.filename()) continue;
    RETURN_IF_ERROR(CheckHasWeights(path, file));
    return WithContext(CheckFile(bytes, stated, nullptr).status(), path);
  }
  return absl::OkStatus();
}

absl::StatusOr<VerifiedCheckpoint> VerifiedCheckpoint::Open(const std::string& folder, const OnRead& on_read) {
  VerifiedCheckpoint opened;
  opened.folder_ = folder;
  ASSIGN_OR_RETURN(opened.manifest_, ReadManifest(folder));
  for (const CheckpointFile& stated : opened.manifest_.files) {
    const std::string path = absl::StrCat(folder, "/", stated.name);
    ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    absl::StatusOr<TensorFile> view = CheckFile(file.bytes(), stated, on_read);
    if (!view.ok()) return WithContext(view.status(), path);
    opened.files_.push_back(std::move(file));
    opened.tensors_[stated.name] = std::move(view->tensors);
    opened.manifest_.metadata.merge(view->metadata);
  }
  return opened;
}

std::vector<TensorView> VerifiedCheckpoint::tensors(StateKind kind) const {
  const auto found = tensors_.find(FileNameOf(kind));
  return found == tensors_.end() ? std::vector<TensorView>() : found->second;
}

absl::Status VerifiedCheckpoint::Restore(LoadedProgram& loaded) const {
  const program::Program& program = loaded.program();
  const bool has_averages = !tensors(StateKind::kAverage).empty();
  const bool keeps_averages = Keeps(program, StateKind::kAverage);
  std::vector<StateKind> kinds;
  for (StateKind kind : kStateKinds) {
    const bool is_moment = kind == StateKind::kMomentum || kind == StateKind::kSecondMoment;
    if (is_moment && program.mode == program::Mode::kEval) continue;
    if (is_moment) RETURN_IF_ERROR(WithContext(CheckMoments(program, kind, !tensors(kind).empty()), folder_));
    if (kind == StateKind::kAverage && has_averages != keeps_averages) continue;
    kinds.push_back(kind);
  }
  const auto naming_file = [&](const absl::Status& status, StateKind kind) {
    return WithContext(status, absl::StrCat(folder_, "/", FileNameOf(kind)));
  };
  for (StateKind kind : kinds) RETURN_IF_ERROR(naming_file(CheckState(program, kind, tensors(kind)), kind));
  for (StateKind kind : kinds) RETURN_IF_ERROR(naming_file(WriteState(loaded, kind, tensors(kind)), kind));
  return absl::OkStatus();
}

absl::StatusOr<RunPosition> RestoreCheckpoint(const std::string& folder, LoadedProgram& loaded) {
  ASSIGN_OR_RETURN(VerifiedCheckpoint checkpoint, VerifiedCheckpoint::Open(folder));
  RETURN_IF_ERROR(checkpoint.Restore(loaded));
  return checkpoint.manifest().position;
}

absl::Status SaveCheckpoint(const std::string& folder, const LoadedProgram& loaded, const RunPosition& position,
                            const RunFields& run) {
  StateCopy state;
  RETURN_IF_ERROR(CopyState(loaded, state));
  RETURN_IF_ERROR(CheckFiniteState(state));
  return WriteCheckpoint(folder, {.position = position, .run = run}, state);
}

int64_t CheckpointBytes(const program::Program& program) {
  int64_t header_bytes = 0;
  for (const program::Parameter& parameter : program.parameters) {
    // A header has about so many characters for each tensor, and there are two.
    header_bytes += 2 * (static_cast<int64_t>(parameter.name.size()) + 70);
  }
  return StateBytes(program) + header_bytes;
}

}  // namespace colonnade::engine
