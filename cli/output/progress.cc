#include "cli/output/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/steady_now.h"
#include "cli/output/output.h"

namespace colonnade::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTerminalSilence{1000}, kTerminalInterval{200}, kLogSilence{2000}, kLogInterval{4000};
constexpr int kWidthUnknown = 80;

std::mutex stderr_mutex;  // of what is drawn in place
bool is_line_open = false;
std::atomic<CountProgress*> latest{nullptr};

void WipeOutLocked() {
  if (std::exchange(is_line_open, false)) std::fputs("\r\x1b[K", stderr);
}

// As many of the first characters as fit into `columns`.
absl::string_view Cut(absl::string_view text, size_t columns) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && columns-- == 0) break;
  }
  return text.substr(0, end);
}

// Where to end a line in `text`: behind it if a word ends there, or its last whole word, or its last comma, or else within
// the word.
size_t EndOfLine(absl::string_view text, bool word_ends) {
  if (word_ends) return text.size();
  const size_t begin = text.find_first_not_of(' ');
  const size_t space = text.rfind(' '), comma = text.rfind(',');
  if (space != absl::string_view::npos && space > begin) return space;
  return comma == absl::string_view::npos ? text.size() : comma + 1;
}

}  // namespace

int TerminalWidth() {
  if (::isatty(STDERR_FILENO) == 0) return 0;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kWidthUnknown;
}

bool RedrawsLines() {
  const char *const terminal = std::getenv("TERM"), *const no_color = std::getenv("NO_COLOR");
  const bool is_plain =
      (terminal != nullptr && absl::string_view(terminal) == "dumb") || (no_color != nullptr && *no_color != '\0');
  return !is_plain && TerminalWidth() > 0;
}

std::string Wrapped(absl::string_view line, int width, absl::string_view indent) {
  const size_t columns = std::max(static_cast<size_t>(std::max(width, 0)), indent.size() + 16);
  std::string text;
  absl::string_view before;
  while (WidthOf(before) + WidthOf(line) > columns) {
    const absl::string_view fits = Cut(line, columns - before.size());
    const size_t end = EndOfLine(fits, line[fits.size()] == ' ');
    const absl::string_view part = line.substr(0, end);
    absl::StrAppend(&text, before, part, "\n");
    line = absl::StripLeadingAsciiWhitespace(line.substr(part.size()));
    before = indent;
  }
  return absl::StrCat(text, before, line);
}

void Say(absl::string_view line) {
  const int width = TerminalWidth();
  const std::lock_guard lock(stderr_mutex);
  WipeOutLocked();
  const std::string printable = Printable(line), text = width > 0 ? Wrapped(printable, width) : printable;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void Warn(absl::string_view what) { Say(absl::StrCat("warning: ", what)); }

void DrawInPlace(absl::string_view line) {
  // What fills the last column makes some terminals go to the next line.
  const std::string printable = Printable(line), text(Cut(printable, static_cast<size_t>(std::max(TerminalWidth() - 1, 1))));
  const std::lock_guard lock(stderr_mutex);
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  std::fflush(stderr);
  is_line_open = true;
}

void WipeOut() {
  const std::lock_guard lock(stderr_mutex);
  WipeOutLocked();
  std::fflush(stderr);
}

std::string Clock(absl::Duration d) {
  const int64_t seconds = absl::ToInt64Seconds(d);
  if (seconds >= 3600) return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return absl::StrFormat("%02d:%02d", seconds / 60, seconds % 60);
}

std::string RateText(int64_t done, absl::Duration elapsed, absl::string_view unit) {
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 1e-9);
  return absl::StrFormat(", %.0f %s/s", static_cast<double>(done) / seconds, unit);
}

std::string CountText(const Count& count, absl::Duration elapsed, std::optional<absl::Duration> left) {
  if (count.total == 0) return absl::StrFormat("%s [%s]", absl::StripSuffix(count.what, ":"), Clock(elapsed));
  if (!left.has_value() && count.done > 0) left = elapsed * (count.total - count.done) / count.done;
  const std::string rate =
      count.counted.empty() ? "" : absl::StrCat(" ", count.counted, RateText(count.done, elapsed, count.counted));
  return absl::StrFormat("%s %d/%d%s%s [%s<%s]", count.what, count.done, count.total, rate, count.behind, Clock(elapsed),
                         left.has_value() ? Clock(*left) : "?");
}

CountProgress::CountProgress(std::string what, std::string counted)
    : before_(latest.exchange(this)), count_{.what = std::move(what), .counted = std::move(counted)} {
  try {
    speaker_ = std::thread([this] { SpeakUntilTheEnd(); });
  } catch (const std::system_error&) {  // silence is better than an end
  }
}

CountProgress::~CountProgress() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  if (speaker_.joinable()) speaker_.join();
  latest = before_;
  WipeOut();
}

void CountProgress::Show(int64_t done, int64_t total, const std::string& behind, std::optional<absl::Duration> left) {
  const std::lock_guard lock(mutex_);
  count_.done = done;
  count_.total = total;
  count_.behind = behind;
  ends_at_ = left.has_value() ? std::optional(base::SteadyNow() + *left) : std::nullopt;
}

std::string CountProgress::Line(absl::Time now) const {
  std::optional<absl::Duration> left;
  if (ends_at_.has_value()) left = std::max(*ends_at_ - now, absl::ZeroDuration());
  return CountText(count_, now - start_, left);
}

void CountProgress::SpeakUntilTheEnd() {
  const bool redraws = RedrawsLines();
  milliseconds pause = redraws ? kTerminalSilence : kLogSilence;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, pause, [this] { return is_over_; })) {
    if (latest != this) continue;
    pause = redraws ? kTerminalInterval : kLogInterval;
    const std::string line = Line(base::SteadyNow());
    lock.unlock();  // whoever counts does not wait for a terminal that is stopped
    redraws ? DrawInPlace(line) : Say(line);
    lock.lock();
  }
}

}  // namespace colonnade::cli
