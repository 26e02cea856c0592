#include "data/stage_times.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace colonnade::data {
namespace {

constexpr double kMuchWaiting = 0.05;
constexpr std::array<Stage, 3> kWorkStages = {Stage::kRead, Stage::kDecode, Stage::kAugment};

int64_t MonotonicNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Only the clock's own thread writes, so this needs no atomic addition.
void AddAlone(std::atomic<int64_t>& to, int64_t value) {
  to.store(to.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

const char* Name(Stage stage) {
  switch (stage) {
    case Stage::kRead:
      return "read";
    case Stage::kDecode:
      return "decode";
    case Stage::kAugment:
      return "augment";
    case Stage::kIdle:
      return "idle";
  }
  return "?";
}

absl::Duration StageTimes::Working() const {
  absl::Duration sum;
  for (Stage stage : kWorkStages) sum += of(stage);
  return sum;
}

double StageTimes::WaitedShare() const {
  if (elapsed <= absl::ZeroDuration()) return 0;
  return std::min(absl::FDivDuration(waited, elapsed), 1.0);
}

StageTimes operator-(StageTimes times, const StageTimes& before) {
  times.images -= before.images;
  for (int s = 0; s < kStageCount; ++s) times.spent[s] -= before.spent[s];
  times.waited -= before.waited;
  times.elapsed -= before.elapsed;
  return times;
}

std::string InputLine(const StageTimes& times) {
  std::string line = absl::StrFormat("input: %.0f %% of the time was spent waiting for it", 100 * times.WaitedShare());
  const absl::Duration working = times.Working();
  if (times.WaitedShare() <= kMuchWaiting || working <= absl::ZeroDuration()) return line;
  std::vector<std::pair<double, const char*>> shares;
  for (Stage stage : kWorkStages) shares.emplace_back(100 * absl::FDivDuration(times.of(stage), working), Name(stage));
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto text = [](std::string* out, const std::pair<double, const char*>& share) {
    absl::StrAppend(out, share.second, " takes ", absl::StrFormat("%.0f %%", share.first));
  };
  return absl::StrCat(line, "; input is the bottleneck: of its threads' time ", absl::StrJoin(shares, ", ", text));
}

void WorkerClock::Start(int64_t sample) {
  lap_ns_ = MonotonicNs();
  started_ns_.store(lap_ns_, std::memory_order_relaxed);
  sample_.store(sample, std::memory_order_release);
}

void WorkerClock::Lap(Stage stage) {
  const int64_t now = MonotonicNs();
  AddAlone(spent_ns_[static_cast<int>(stage)], now - lap_ns_);
  lap_ns_ = now;
}

void WorkerClock::Finish() {
  AddAlone(images_, 1);
  sample_.store(-1, std::memory_order_relaxed);
}

absl::Duration WorkerClock::Age() const {
  if (sample() < 0) return absl::ZeroDuration();
  return absl::Nanoseconds(MonotonicNs() - started_ns_.load(std::memory_order_relaxed));
}

void WorkerClock::AddTo(StageTimes& times) const {
  times.images += images_.load(std::memory_order_relaxed);
  for (int s = 0; s < kStageCount; ++s) times.spent[s] += absl::Nanoseconds(spent_ns_[s].load(std::memory_order_relaxed));
}

}  // namespace colonnade::data
