#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"

namespace colonnade::cli {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(200), kLogInterval = absl::Seconds(5),
                         kSilence = absl::Seconds(1);
constexpr int kBarWidth = 20;

std::string Clock(absl::Duration d) {
  const int64_t seconds = absl::ToInt64Seconds(d);
  if (seconds >= 3600) return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%02d:%02d", seconds / 60, seconds % 60);
}

}  // namespace

Progress::Progress(int64_t batch) : batch_(batch), terminal_(::isatty(STDERR_FILENO) != 0) {}

void Progress::Show(const engine::TrainProgress& p) {
  const bool last = p.step == p.steps;
  if (!last && p.elapsed - last_ < (terminal_ ? kTerminalInterval : kLogInterval)) return;
  last_ = p.elapsed;
  const int64_t done = p.step - p.first_step;  // in `elapsed`
  const double share = static_cast<double>(p.step) / static_cast<double>(p.steps);
  const double seconds = absl::ToDoubleSeconds(p.elapsed);
  const absl::Duration left = absl::Seconds(seconds * static_cast<double>(p.steps - p.step) / static_cast<double>(done));
  const int filled = static_cast<int>(share * kBarWidth);
  const std::string line =
      absl::StrFormat("step %3d%%|%s%s| %d/%d [%s<%s, %.0f images/s, loss=%.4f]", static_cast<int>(share * 100),
                      std::string(filled, '#'), std::string(kBarWidth - filled, ' '), p.step, p.steps, Clock(p.elapsed),
                      Clock(left), seconds > 0 ? static_cast<double>(done * batch_) / seconds : 0, p.loss);
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  std::fflush(stderr);
  open_ = terminal_;
}

void Progress::Finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

CountProgress::CountProgress(const char* what) : what_(what), terminal_(::isatty(STDERR_FILENO) != 0) {}

void CountProgress::Show(int64_t done, int64_t total, const std::string& behind) {
  const absl::Time now = absl::Now();
  const absl::Duration elapsed = now - start_;
  if (now - last_ < (terminal_ ? kTerminalInterval : kLogInterval) || elapsed < kSilence) return;
  last_ = now;
  const std::string line = absl::StrFormat("%s %d/%d%s [%s<%s]", what_, done, total, behind, Clock(elapsed),
                                           Clock(elapsed * (total - done) / std::max<int64_t>(done, 1)));
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
  open_ = terminal_;
}

CountProgress::~CountProgress() {
  if (open_) std::fputc('\n', stderr);
}

}  // namespace colonnade::cli
