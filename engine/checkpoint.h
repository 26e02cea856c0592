// A checkpoint: all state of a training run in a folder of its own, whatever plan it ran under (docs/checkpoints.md).
//
//   step-000001200/
//     weights.safetensors    parameters and running statistics, in the element type of the run
//     momentum.safetensors   what the optimiser keeps, under the names of the parameters; for AdamW also second_moment
//     manifest.json          where the run stands, what it is made of, XXH3 of everything
//
// The manifest is written last: a folder without one is no checkpoint.
#ifndef COLONNADE_ENGINE_CHECKPOINT_H_
#define COLONNADE_ENGINE_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_calls.h"
#include "engine/io/mapped_file.h"
#include "engine/io/safetensors.h"
#include "engine/run_position.h"
#include "engine/state.h"

namespace colonnade::engine {

inline constexpr int kCheckpointVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";
std::string FileNameOf(StateKind kind);  // "weights.safetensors"

// What a run is made of, as fields and values. A run whose fields differ from a checkpoint's cannot resume from it.
using RunFields = std::vector<std::pair<std::string, std::string>>;

struct CheckpointTensor {
  std::string name;
  program::DType dtype = program::DType::kF32;
  program::Shape shape;
  std::string xxh3;  // of its bytes
};

struct CheckpointFile {
  std::string name;                       // "weights.safetensors"
  int64_t bytes = 0;                      // of the whole file
  std::string header_xxh3;                // of what stands before the tensors
  std::vector<CheckpointTensor> tensors;  // in the order of their bytes
};

// What a test of these weights found.
struct TestScores {
  double top1 = 0, loss = 0;
  bool operator==(const TestScores&) const = default;
};
// Returns whether `a` is better than `b`: of the higher top-1 accuracy, or of the same and the lower loss.
bool IsBetterTest(const TestScores& a, const TestScores& b);

struct Manifest {
  RunPosition position;
  std::optional<TestScores> test{};  // absent: none was made of this state
  RunFields run;
  std::string plan;                   // under which it was written: for people
  std::vector<CheckpointFile> files;  // one for each kind of state that the run has, in the order of the kinds
  Metadata metadata{};                // of the weights' file, which alone has it: WriteCheckpoint writes it there

  int64_t Bytes() const;  // of all files
};

std::string ToJson(const Manifest& manifest);
// Reads what ToJson wrote. InvalidArgument where a byte of it was changed; Unimplemented for another version of the format.
absl::StatusOr<Manifest> ManifestFromJson(absl::string_view json);

// Writes a checkpoint to `folder`: makes it where it is missing; a checkpoint that is there stops being one first. Fills in
// `manifest.files`. DataLoss where the machine refuses; the folder then holds no checkpoint. InvalidArgument, and nothing is
// written, where step or sample is negative, or a score of the test not finite.
absl::Status WriteCheckpoint(const std::string& folder, Manifest manifest, const StateCopy& state,
                             const base::FileCalls& calls = base::FileCalls());

// Replaces the manifest of a checkpoint whose other files are as it says. Errors as WriteCheckpoint.
absl::Status WriteManifest(const std::string& folder, const Manifest& manifest,
                           const base::FileCalls& calls = base::FileCalls());

// Reads the manifest. NotFound where `folder` holds no checkpoint; InvalidArgument that names file, tensor and place where
// it is damaged.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);
// Is called with the number of bytes of each tensor once they are read.
using OnRead = std::function<void(int64_t bytes)>;
// Reads all of a checkpoint and compares it with the manifest's checksums. Errors as ReadManifest.
absl::Status VerifyCheckpoint(const std::string& folder, const OnRead& on_read = nullptr);

// Compares the bytes of the file at `path`, behind symbolic links, with the manifest of the checkpoint that it lies in, if
// it lies in one. Errors as ReadManifest; InvalidArgument, too, where it has the optimiser's moments.
absl::Status VerifyFileOfCheckpoint(const std::string& path, absl::string_view bytes);

// A checkpoint that was verified, and whose files are mapped until the last copy of it goes.
class VerifiedCheckpoint {
 public:
  // Maps and verifies a checkpoint. Errors as VerifyCheckpoint.
  static absl::StatusOr<VerifiedCheckpoint> Open(const std::string& folder, const OnRead& on_read = nullptr);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }  // with the metadata
  // Returns the tensors of one kind; none where the run has no such state.
  std::vector<TensorView> tensors(StateKind kind) const;
  // Writes the state to the devices. Averages that the checkpoint lacks begin with the parameters; averages that the Program
  // does not keep are left out, as are the moments where it evaluates. InvalidArgument, and nothing is written, where the
  // rest is not the state of the Program's network, or another optimiser's.
  absl::Status Restore(LoadedProgram& loaded) const;

 private:
  std::string folder_;
  Manifest manifest_;
  std::vector<MappedFile> files_;
  std::map<std::string, std::vector<TensorView>> tensors_;  // by file
};

// Verifies the checkpoint, and only then restores it. Returns where its run stands: TrainOptions::start of a run that
// goes on.
absl::StatusOr<RunPosition> RestoreCheckpoint(const std::string& folder, LoadedProgram& loaded);

// Copies the state from the devices and writes it to `folder`, as WriteCheckpoint. InvalidArgument, too,
// where a value is not finite. REQUIRES: synchronized.
absl::Status SaveCheckpoint(const std::string& folder, const LoadedProgram& loaded, const RunPosition& position,
                            const RunFields& run = {});

// Returns the bytes of a checkpoint of `program` without its manifest: within a few per cent of the whole even on the
// smallest networks.
int64_t CheckpointBytes(const program::Program& program);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_CHECKPOINT_H_
