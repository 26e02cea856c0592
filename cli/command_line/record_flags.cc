#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/command_line/flags.h"

namespace colonnade::cli {
namespace {

CLI::Validator EvaluationIntervalRule() {
  auto check = [](std::string& text) -> std::string {
    if (ParseEvaluationInterval(text).has_value()) return "";
    return absl::StrFormat("expected a number of steps, or of epochs as in 1e, found \"%s\"", text);
  };
  return {check, "N|Ne"};
}

CLI::Validator TargetRule() {
  auto check = [](std::string& text) -> std::string {
    if (ParseTarget(text).has_value()) return "";
    return absl::StrFormat("expected top1:X or top5:X with X above 0 and at most 1, or loss:X with X above 0, found \"%s\"",
                           text);
  };
  return {check, "top1:X|top5:X|loss:X"};
}

}  // namespace

std::optional<EvaluationInterval> ParseEvaluationInterval(absl::string_view text) {
  const bool in_epochs = absl::ConsumeSuffix(&text, "e");
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 1 || count > (in_epochs ? kMostEpochs : kMostSteps)) return std::nullopt;
  return in_epochs ? EvaluationInterval{.epochs = count} : EvaluationInterval{.steps = count};
}

std::optional<Target> ParseTarget(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  Target target;
  if (!absl::SimpleAtod(parts.second, &target.value) || !std::isfinite(target.value) || target.value <= 0) {
    return std::nullopt;
  }
  if (parts.first == "loss") {
    target.metric = Target::Metric::kLoss;
    return target;
  }
  if (parts.first != "top1" && parts.first != "top5") return std::nullopt;
  target.metric = parts.first == "top1" ? Target::Metric::kTop1 : Target::Metric::kTop5;
  return target.value <= 1 ? std::optional(target) : std::nullopt;
}

void AddRecordFlags(CLI::App& app, RecordFlags& flags) {
  const std::string group = "Records";
  app.add_option("--eval-every", flags.eval_every,
                 "tests while training. N: after every N steps; Ne: after every N epochs (default: at the end alone)")
      ->check(EvaluationIntervalRule())
      ->group(group);
  app.add_option("--until", flags.until,
                 "ends at the first test with this accuracy or more, or this loss or less (tests after every epoch, unless "
                 "--eval-every says otherwise)")
      ->check(TargetRule())
      ->group(group);
  app.add_option("--log", flags.log,
                 "writes one JSON object a line: the run, each step, each test; --resume goes on with it")
      ->type_name("FILE.jsonl")
      ->group(group);
  app.add_option("--tensorboard", flags.tensorboard, "folder for event files with the same numbers, for TensorBoard")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--curves", flags.curves,
                 "training loss and test accuracy over steps, drawn from the log (default: FILE.jsonl) when the run ends")
      ->check(DrawnFile())
      ->type_name("FILE.svg")
      ->group(group);
}

}  // namespace colonnade::cli
