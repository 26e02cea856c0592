#include "engine/checkpoint_saver.h"

#include <exception>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "program/steady_now.h"

namespace colonnade::engine {

absl::Status CheckpointSaver::Begin(Manifest manifest) {
  result_ = {.step = manifest.position.step, .bytes = copy_.bytes()};
  written_ = false;
  try {
    thread_ = std::thread([this, manifest = std::move(manifest)] { Write(manifest); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread to write a checkpoint: ", error.what()));
  }
  return absl::OkStatus();
}

void CheckpointSaver::Write(const Manifest& manifest) {
  const absl::Time start = program::SteadyNow();
  try {
    result_.status = CheckFiniteState(copy_);
    if (!result_.status.ok()) {
      result_.status = absl::OutOfRangeError(absl::StrFormat("after step %d, the last: %s; a smaller learning rate may help",
                                                             manifest.position.step, result_.status.message()));
    }
    if (result_.status.ok()) result_.status = folder_.Save(manifest, copy_);
    if (result_.status.ok()) result_.retired = folder_.Retire();
  } catch (const std::exception& error) {
    result_.status = absl::ResourceExhaustedError(absl::StrCat("writing a checkpoint: ", error.what()));
  }
  result_.written = program::SteadyNow() - start;
  written_ = true;
}

std::optional<SavedCheckpoint> CheckpointSaver::Poll() { return written_ ? Await() : std::nullopt; }

std::optional<SavedCheckpoint> CheckpointSaver::Await() {
  if (!thread_.joinable()) return std::nullopt;
  thread_.join();
  written_ = false;
  return result_;
}

}  // namespace colonnade::engine
