// Lines on stderr that say how far something is: on a terminal one line is redrawn in place, elsewhere lines come every few
// seconds.
//
// Thread rule: what is drawn in place and what Say prints keep out of each other's way, from whatever threads they come.
#ifndef COLONNADE_CLI_OUTPUT_PROGRESS_H_
#define COLONNADE_CLI_OUTPUT_PROGRESS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/steady_now.h"

namespace colonnade::cli {

// Columns of the terminal that stderr is; 0 where it is none.
int TerminalWidth();

// Whether lines on stderr may be redrawn in place, by escape sequences: on a terminal, but for TERM=dumb and NO_COLOR.
bool RedrawsLines();

// `line` in lines of at most `width` columns, broken between words, or else behind a comma, where that is possible; `indent`
// stands before all but the first.
std::string Wrapped(absl::string_view line, int width, absl::string_view indent = "    ");

// Prints a line on stderr, wrapped for its terminal, if it is one; what is drawn in place is wiped out before.
void Say(absl::string_view line);
// Says "warning: " and `what`, which may not be as it was meant.
void Warn(absl::string_view what);
// Draws `line` in place of what was drawn so before, as far as the terminal is wide. REQUIRES: stderr is a terminal.
void DrawInPlace(absl::string_view line);
// Wipes out what was drawn in place, if anything was.
void WipeOut();

std::string Clock(absl::Duration d);  // "03:07", "1:03:07"

// ", 532 images/s": of a count that has come so far.
std::string RateText(int64_t done, absl::Duration elapsed, absl::string_view unit);

// How far something is that is counted.
struct Count {
  std::string what, counted;    // `counted` names what the rate counts ("images"); empty: no rate is shown
  int64_t done = 0, total = 0;  // total 0: not counted yet
  std::string behind;           // is said behind the numbers
};

// Returns "draw 40/100 [00:03<00:05]", with a rate "reading: 40/100 images, 13 images/s [00:03<00:05]". What is not counted
// yet has no numbers, and no colon before them: "reading [00:03]". `left` is the time that is left, where that is better
// known than from the time that has passed.
std::string CountText(const Count& count, absl::Duration elapsed, std::optional<absl::Duration> left = {});

// Says CountText of what is counted; of what cannot be, Show is never called. Silent for its first seconds; then it speaks
// by itself, too, so that no work is silent for more than five seconds. Of several the latest speaks.
class CountProgress {
 public:
  // The names are as of Count.
  explicit CountProgress(std::string what, std::string counted = "");
  ~CountProgress();  // wipes its line out on a terminal
  CountProgress(const CountProgress&) = delete;
  CountProgress& operator=(const CountProgress&) = delete;
  // `left` is as of CountText.
  void Show(int64_t done, int64_t total, const std::string& behind = "", std::optional<absl::Duration> left = {});

 private:
  void SpeakUntilTheEnd();
  std::string Line(absl::Time now) const;

  const absl::Time start_ = base::SteadyNow();
  CountProgress* const before_;  // that was the latest
  std::mutex mutex_;             // of all below
  std::condition_variable over_;
  bool is_over_ = false;
  Count count_;
  std::optional<absl::Time> ends_at_;
  std::thread speaker_;
};

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_OUTPUT_PROGRESS_H_
