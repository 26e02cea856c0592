#include "engine/checkpoint_saver.h"

#include <exception>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/steady_now.h"

namespace colonnade::engine {
namespace {

int64_t BytesOfCheckpoint(const std::string& checkpoint) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(checkpoint);
  return manifest.ok() ? manifest->Bytes() : 0;
}

}  // namespace

void CheckpointSaver::Begin(const Manifest& manifest) {
  result_ = {.step = manifest.position.step};
  is_begun_ = true;
  written_ = false;
  try {
    thread_ = std::thread([this, manifest] { Write(manifest); });
  } catch (const std::system_error&) {
    Write(manifest);
  }
}

void CheckpointSaver::Write(const Manifest& manifest) {
  const absl::Time start = base::SteadyNow();
  try {
    result_.status = CheckFiniteState(copy_);
    if (!result_.status.ok()) result_.status = NotFiniteAfter(manifest.position.step, result_.status);
    if (result_.status.ok()) result_.status = folder_.Save(manifest, copy_);
    if (result_.status.ok()) result_.bytes = BytesOfCheckpoint(folder_.PathOf(manifest.position.step));
    if (result_.status.ok()) result_.retired = folder_.Retire();
  } catch (const std::exception& error) {
    result_.status = absl::ResourceExhaustedError(absl::StrCat("writing a checkpoint: ", error.what()));
  }
  result_.written = base::SteadyNow() - start;
  written_ = true;
}

std::optional<SavedCheckpoint> CheckpointSaver::Poll() { return written_ ? Await() : std::nullopt; }

std::optional<SavedCheckpoint> CheckpointSaver::Await() {
  if (!is_begun_) return std::nullopt;
  if (thread_.joinable()) thread_.join();
  is_begun_ = written_ = false;
  return result_;
}

}  // namespace colonnade::engine
