#include "cli/training/step_lines.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/progress.h"

namespace colonnade::cli {
namespace {

constexpr absl::Duration kLeastInterval = absl::Seconds(5), kMostInterval = absl::Minutes(1),
                         kBarInterval = absl::Milliseconds(200);
constexpr int kLinesOfARun = 200;

struct StepColumn {
  const char* name;
  int width;       // with the space before it
  int importance;  // the least important go first where the terminal is narrow
  bool is_of_prediction;
  std::string (*text)(const StepLine&);
};

double ErrorOf(const StepLine& line) { return line.step_ms > 0 ? *line.predicted_ms / line.step_ms - 1 : 0; }

// In the eight letters of its column, however large.
std::string LossText(double loss) {
  if (std::isnan(loss)) return "nan";
  if (loss < 1e3) return absl::StrFormat("%.4f", loss);
  return loss < 1e6 ? absl::StrFormat("%.1f", loss) : absl::StrFormat("%.3g", loss);
}

constexpr StepColumn kStepColumns[] = {
    {"step", 7, 9, false, [](const StepLine& l) { return absl::StrCat(l.step); }},
    {"epoch", 7, 6, false, [](const StepLine& l) { return absl::StrFormat("%.2f", l.epoch); }},
    {"loss", 9, 8, false, [](const StepLine& l) { return LossText(l.loss); }},
    {"top-1", 8, 5, false, [](const StepLine& l) { return absl::StrFormat("%.1f %%", 100 * l.top1); }},
    {"images/s", 9, 7, false, [](const StepLine& l) { return absl::StrFormat("%.0f", l.images_per_s); }},
    {"ms/step", 9, 4, false, [](const StepLine& l) { return absl::StrFormat("%.2f", l.step_ms); }},
    {"predicted", 10, 2, true, [](const StepLine& l) { return absl::StrFormat("%.2f", *l.predicted_ms); }},
    {"error", 7, 2, true, [](const StepLine& l) { return absl::StrFormat("%+.0f %%", 100 * ErrorOf(l)); }},
    {"input", 6, 3, false, [](const StepLine& l) { return absl::StrFormat("%.0f %%", 100 * l.input_share); }},
    {"memory", 8, 1, false,
     [](const StepLine& l) {
       const double megabytes = static_cast<double>(l.memory_bytes) / 1e6;
       return megabytes < 1000 ? absl::StrFormat("%.0f MB", megabytes) : absl::StrFormat("%.1f GB", megabytes / 1e3);
     }},
};

std::vector<const StepColumn*> ColumnsThatFit(bool predicts, int width) {
  std::vector<const StepColumn*> columns;
  int total = 0;
  for (const StepColumn& column : kStepColumns) {
    if (column.is_of_prediction && !predicts) continue;
    columns.push_back(&column);
    total += column.width;
  }
  const auto less = [](const StepColumn* a, const StepColumn* b) { return a->importance < b->importance; };
  while (width > 0 && total > width && columns.size() > 1) {
    const auto least = std::min_element(columns.begin(), columns.end(), less);
    total -= (*least)->width;
    columns.erase(least);
  }
  return columns;
}

absl::Duration IntervalOf(const engine::TrainProgress& p) {
  const double done = static_cast<double>(p.step - p.first_step), all = static_cast<double>(p.steps - p.first_step);
  return std::clamp(p.elapsed * (all / done) / kLinesOfARun, kLeastInterval, kMostInterval);
}

}  // namespace

std::string StepHeader(bool predicts, int width) {
  std::string text;
  for (const StepColumn* column : ColumnsThatFit(predicts, width))
    absl::StrAppendFormat(&text, "%*s", column->width, column->name);
  return text;
}

std::string StepText(const StepLine& line, bool predicts, int width) {
  std::string text;
  for (const StepColumn* column : ColumnsThatFit(predicts, width)) {
    const std::string value = column->text(line);
    // What is too long for its column stays apart from its neighbour.
    absl::StrAppendFormat(&text, " %*s", column->width - 1, value);
  }
  return text;
}

std::string Bar(const engine::TrainProgress& p, int64_t batch, int width) {
  const auto done = static_cast<double>(p.step - p.first_step);  // in `elapsed`
  const double share = static_cast<double>(p.step) / static_cast<double>(p.steps),
               seconds = absl::ToDoubleSeconds(p.elapsed);
  const absl::Duration left = absl::Seconds(seconds * static_cast<double>(p.steps - p.step) / done);
  const double rate = seconds > 0 ? done * static_cast<double>(batch) / seconds : 0;
  const std::string before = absl::StrFormat("step %3d%%", static_cast<int>(share * 100));
  const std::string clocks = absl::StrFormat("%d/%d [%s<%s", p.step, p.steps, Clock(p.elapsed), Clock(left));
  const std::string images = absl::StrFormat(", %.0f images/s", rate), loss = absl::StrCat(", loss=", LossText(p.loss));
  for (const std::string& behind : {absl::StrCat("| ", clocks, images, loss, "]"), absl::StrCat("| ", clocks, images, "]"),
                                    absl::StrCat("| ", clocks, "]")}) {
    constexpr int kLeastBar = 10;
    const int room = width - static_cast<int>(before.size() + behind.size()) - 1;
    if (room < kLeastBar) continue;
    const int filled = static_cast<int>(share * room);
    return absl::StrCat(before, "|", std::string(filled, '#'), std::string(room - filled, ' '), behind);
  }
  return absl::StrCat(before, " ", clocks, "]");
}

int64_t StepsBetweenLines(absl::Duration step, absl::Duration interval) {
  const double most = absl::FDivDuration(interval, std::max(step, absl::Nanoseconds(1)));
  int64_t steps = 1;
  for (int64_t ten = 1; static_cast<double>(ten) <= most; ten *= 10) {
    for (int64_t next : {ten, 2 * ten, 5 * ten}) steps = static_cast<double>(next) <= most ? next : steps;
  }
  return steps;
}

StepLines::StepLines(Setup setup) : setup_(std::move(setup)), redraws_(RedrawsLines()) {}

bool StepLines::IsDue(const engine::TrainProgress& p) const {
  if (!has_header_ || p.step == p.steps) return true;
  const absl::Duration interval = IntervalOf(p);
  if (redraws_) return p.elapsed - last_elapsed_ >= interval;
  return p.step % StepsBetweenLines(p.elapsed / (p.step - p.first_step), interval) == 0;
}

void StepLines::Print(const engine::TrainProgress& p) {
  const int width = TerminalWidth();
  const bool predicts = setup_.predicted_ms.has_value();
  if (!std::exchange(has_header_, true)) {
    last_step_ = p.first_step;
    Say(StepHeader(predicts, width));
  }
  const absl::Duration waited = setup_.input_waited(), elapsed = p.elapsed - last_elapsed_;
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 1e-9), steps = static_cast<double>(p.step - last_step_);
  Say(StepText({.step = p.step,
                .epoch = setup_.course.EpochsAfter(p.step),
                .loss = p.loss,
                .top1 = static_cast<double>(hits_) / static_cast<double>(std::max<int64_t>(labels_, 1)),
                .images_per_s = steps * static_cast<double>(setup_.course.batch) / seconds,
                .step_ms = seconds * 1e3 / steps,
                .predicted_ms = setup_.predicted_ms,
                .input_share = std::clamp(absl::FDivDuration(waited - last_waited_, absl::Seconds(seconds)), 0.0, 1.0),
                .memory_bytes = setup_.memory_bytes},
               predicts, width));
  last_step_ = p.step;
  last_elapsed_ = p.elapsed;
  last_waited_ = waited;
}

void StepLines::Show(const engine::TrainProgress& p) {
  const auto epoch = static_cast<int64_t>(setup_.course.EpochsAfter(p.step - 1));  // in which the step begins
  if (std::exchange(epoch_, epoch) != epoch) hits_ = labels_ = 0;
  hits_ += p.top1_hits;
  labels_ += p.labels;
  if (IsDue(p)) Print(p);
  if (!redraws_ || p.elapsed - last_bar_ < kBarInterval) return;
  last_bar_ = p.elapsed;
  DrawInPlace(Bar(p, setup_.course.batch, TerminalWidth() - 1));
}

}  // namespace colonnade::cli
