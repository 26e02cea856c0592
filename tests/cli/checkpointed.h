// A run of `train` whose checkpoints a test looks at, and what is in its folder.
#ifndef COLONNADE_TESTS_CLI_CHECKPOINTED_H_
#define COLONNADE_TESTS_CLI_CHECKPOINTED_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/checkpoint.h"
#include "engine/checkpoint_folder.h"
#include "gtest/gtest.h"
#include "tests/cli/command.h"

namespace colonnade::cli {

class Checkpointed : public Command {
 protected:
  std::string Run1() const { return In("run"); }
  Result Train(const std::string& flags) const { return Run(absl::StrCat(kTrainDigits, flags)); }
  // Trains for some steps, and leaves a checkpoint after each.
  void TrainSteps(int steps) const {
    const Result r = Train(absl::StrCat("--steps=", steps, " --checkpoint-every=1 --checkpoint=", Run1()));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  std::vector<int64_t> Steps() const { return *engine::CheckpointSteps(Run1()); }
  std::string At(int64_t step) const { return engine::CheckpointPath(Run1(), step); }
  // Folders of checkpoints that are being written, or were.
  int64_t HalfWritten() const {
    std::error_code gone;
    int64_t count = 0;
    for (std::filesystem::directory_iterator it(Run1(), gone), end; !gone && it != end; it.increment(gone)) {
      std::error_code ignored;
      const bool is_folder = std::filesystem::is_directory(it->path(), ignored);
      count += is_folder && !std::filesystem::exists(it->path() / engine::kManifestName, ignored) ? 1 : 0;
    }
    return count;
  }
  void ExpectAllGood() const {
    for (int64_t step : Steps()) {
      const absl::Status good = engine::VerifyCheckpoint(At(step));
      EXPECT_TRUE(good.ok()) << good;
    }
  }
};

}  // namespace colonnade::cli

#endif  // COLONNADE_TESTS_CLI_CHECKPOINTED_H_
