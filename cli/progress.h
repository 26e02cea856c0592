// One line on stderr that says how far a run is, how fast it goes and how long it will take.
//
// On a terminal the line is redrawn a few times a second; elsewhere one is printed every few seconds.
#ifndef COLONNADE_CLI_PROGRESS_H_
#define COLONNADE_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/trainer.h"

namespace colonnade::cli {

class Progress {
 public:
  explicit Progress(int64_t batch);
  void Show(const engine::TrainProgress& progress);
  void Finish();  // ends the line on a terminal

 private:
  const int64_t batch_;
  const bool terminal_;
  absl::Duration last_ = -absl::InfiniteDuration();
  bool open_ = false;
};

// The same for what is counted: "draw 40/100 [00:03<00:05]", with what is said behind it. Silent for its first second.
class CountProgress {
 public:
  explicit CountProgress(const char* what);
  ~CountProgress();  // ends the line on a terminal
  CountProgress(const CountProgress&) = delete;
  CountProgress& operator=(const CountProgress&) = delete;
  void Show(int64_t done, int64_t total, const std::string& behind = "");

 private:
  const char* const what_;
  const bool terminal_;
  const absl::Time start_ = absl::Now();
  absl::Time last_ = start_;
  bool open_ = false;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_PROGRESS_H_
