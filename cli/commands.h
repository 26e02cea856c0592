// The sub-commands: one file each. Each returns ok, or the error that the exit code is made of.
#ifndef COLONNADE_CLI_COMMANDS_H_
#define COLONNADE_CLI_COMMANDS_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "cli/command_line/flags.h"

namespace colonnade::cli {

// What a command says beside its status.
struct Outcome {
  bool interrupted = false;  // ended early, as a signal asked for
  std::string saved;         // train: what of it is kept, if anything
  bool resumes = false;      // train: --resume would go on where it ended
  bool disagrees = false;    // verify, bench transfers: exit code 1
  // train, eval, predict: called before the first step; until then there is nothing to keep, and a signal ends the process
  // at once.
  std::function<void()> before_steps = [] {};
};

absl::Status RunTrain(const Flags& asked, const std::atomic<bool>& stop, Outcome& outcome);
absl::Status RunEval(const Flags& flags, const std::atomic<bool>& stop, Outcome& outcome);
// With a --batch of 0 all images are computed at once, up to some 64.
absl::Status RunPredict(Flags flags, const std::atomic<bool>& stop, Outcome& outcome);
absl::Status RunVerify(const Flags& flags, Outcome& outcome);
absl::Status RunCheckpoint(const Flags& flags);
absl::Status RunProgram(const Flags& flags);
absl::Status RunPlan(const Flags& flags);
absl::Status RunSimulate(const Flags& flags);
absl::Status RunTable(const Flags& flags);
absl::Status RunCalibrate(const Flags& flags);
absl::Status RunIoBench(const Flags& flags);
absl::Status RunInfo(const Flags& flags);
absl::Status ListModels(const Flags& flags);
absl::Status RunModels(const Flags& flags);  // one model, or the list

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMANDS_H_
