// What a training says on stderr while it runs: a table with a line every few seconds, and on a terminal a bar below it.
#ifndef COLONNADE_CLI_TRAINING_STEP_LINES_H_
#define COLONNADE_CLI_TRAINING_STEP_LINES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "cli/training/run_log.h"
#include "engine/trainer.h"

namespace colonnade::cli {

// One line of the table. Rates and times are those since the line before.
struct StepLine {
  int64_t step = 0;
  double epoch = 0, loss = 0;
  double top1 = 0;  // of the running epoch's samples so far, 0 to 1
  double images_per_s = 0, step_ms = 0;
  std::optional<double> predicted_ms;
  double input_share = 0;  // of the time, in which the host waited for a batch
  int64_t memory_bytes = 0;
};

// Returns the columns that fit into `width` (0: all of them), those of a prediction only where there is one.
std::string StepHeader(bool predicts, int width);
std::string StepText(const StepLine& line, bool predicts, int width);

// "step  38%|#####       | 120/225 [00:03<00:05, 1377 images/s, loss=1.2345]", `width` columns wide; without what does not
// fit.
std::string Bar(const engine::TrainProgress& progress, int64_t batch, int width);

// After how many steps a line comes, so that no more than `interval` lies between two: 1, 2, 5, 10, 20, …
int64_t StepsBetweenLines(absl::Duration step, absl::Duration interval);

class StepLines {
 public:
  struct Setup {
    RunCourse course;
    std::optional<double> predicted_ms;
    int64_t memory_bytes = 0;  // of the fullest device
    std::function<absl::Duration()> input_waited;
  };
  explicit StepLines(Setup setup);

  void Show(const engine::TrainProgress& progress);  // after every step

 private:
  bool IsDue(const engine::TrainProgress& progress) const;
  void Print(const engine::TrainProgress& progress);

  const Setup setup_;
  const bool redraws_;
  bool has_header_ = false;
  int64_t epoch_ = -1, hits_ = 0, labels_ = 0;  // of the running epoch
  int64_t last_step_ = 0;                       // of the line before
  absl::Duration last_elapsed_, last_waited_, last_bar_ = -absl::InfiniteDuration();
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_TRAINING_STEP_LINES_H_
