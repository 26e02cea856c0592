// Where the time of the input goes: what each worker does, summed when it is asked for.
//
// Thread rule: a WorkerClock is written by its own thread and read by any.
#ifndef COLONNADE_DATA_STAGE_TIMES_H_
#define COLONNADE_DATA_STAGE_TIMES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace colonnade::data {

enum class Stage { kRead, kDecode, kAugment, kIdle };  // kIdle: waiting for room in the batches
inline constexpr int kStageCount = 4;
const char* Name(Stage stage);

struct StageTimes {
  int64_t images = 0;
  std::array<absl::Duration, kStageCount> spent = {};  // by stage, of all workers together
  absl::Duration waited;                               // of the reader, for batches that were not ready
  absl::Duration elapsed;                              // since the reader had its first batch

  absl::Duration of(Stage stage) const { return spent[static_cast<int>(stage)]; }
  absl::Duration Working() const;  // all stages but kIdle
  double WaitedShare() const;      // of the elapsed time, 0 to 1
};
StageTimes operator-(StageTimes times, const StageTimes& before);

// Returns "input: 3 % of the time was spent waiting for it", and above 5 % what the workers do with their time.
std::string InputLine(const StageTimes& times);

class alignas(64) WorkerClock {
 public:
  void Start(int64_t sample);  // −1: no sample
  void Lap(Stage stage);       // what has passed since Start, or the Lap before it, was spent so
  void Finish();               // the sample is done

  int64_t sample() const { return sample_.load(std::memory_order_acquire); }  // who sees it sees when it started
  absl::Duration Age() const;                                                 // since Start; zero where there is no sample
  void AddTo(StageTimes& times) const;

 private:
  std::array<std::atomic<int64_t>, kStageCount> spent_ns_ = {};
  std::atomic<int64_t> images_{0}, sample_{-1}, started_ns_{0};
  int64_t lap_ns_ = 0;
};

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_STAGE_TIMES_H_
