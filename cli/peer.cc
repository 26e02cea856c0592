#include "cli/peer.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "cli/command_line/openmp.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "engine/statistics.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kWords = "images/s";
constexpr size_t kMostQuoted = 200;
constexpr size_t kMostOutputKept = 1 << 20;  // of what it says, the end: its figure is the last

struct Ended {
  int code = 0;
  std::string output;  // of both streams
};

absl::StatusOr<Ended> RunInShell(const std::string& command) {
  std::fflush(nullptr);
  FILE* pipe = ::popen(absl::StrCat("exec 2>&1 </dev/null\n", WithoutLimitOfSpinning(), command).c_str(), "r");
  if (pipe == nullptr) return absl::InternalError("--against: the system starts no shell");
  Ended ended;
  std::array<char, 4096> part;
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) {
    ended.output.append(part.data(), size);
    if (ended.output.size() > 2 * kMostOutputKept) ended.output.erase(0, ended.output.size() - kMostOutputKept);
  }
  const int status = ::pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

std::optional<double> Positive(double value) { return value > 0 && value < 1e15 ? std::optional(value) : std::nullopt; }

std::optional<double> NumberIn(absl::string_view word) {
  constexpr absl::string_view kBefore = "([{=:~", kBehind = ")]},;:";
  while (!word.empty() && kBefore.find(word.front()) != absl::string_view::npos) word.remove_prefix(1);
  while (!word.empty() && kBehind.find(word.back()) != absl::string_view::npos) word.remove_suffix(1);
  double value = 0;
  return absl::SimpleAtod(word, &value) ? Positive(value) : std::nullopt;
}

std::optional<double> FigureOfJson(absl::string_view text) {
  if (text.empty() || text.front() != '{') return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("images_per_s") || !json["images_per_s"].is_number()) return std::nullopt;
  return Positive(json["images_per_s"].get<double>());
}

std::optional<double> FigureOfWords(absl::string_view line) {
  const size_t found = line.find(kWords);
  if (found == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> before = absl::StrSplit(line.substr(0, found), ' ', absl::SkipEmpty());
  if (!before.empty()) {
    if (const std::optional<double> value = NumberIn(before.back())) return value;
  }
  for (const absl::string_view word : absl::StrSplit(line.substr(found + kWords.size()), ' ', absl::SkipEmpty())) {
    if (const std::optional<double> value = NumberIn(word)) return value;
  }
  return std::nullopt;
}

// The last line that is not empty.
std::string EndOf(absl::string_view output) {
  output = absl::StripAsciiWhitespace(output);
  if (output.empty()) return "nothing";
  const size_t line = output.rfind('\n');
  if (line != absl::string_view::npos) output.remove_prefix(line + 1);
  return absl::StrCat("\"", output.substr(0, kMostQuoted), "\"");
}

std::vector<double> Ratios(const std::vector<Pair>& pairs) {
  std::vector<double> ratios;
  for (const Pair& pair : pairs) ratios.push_back(pair.ratio());
  return ratios;
}

}  // namespace

std::optional<double> FindImagesPerSecond(absl::string_view output) {
  if (const auto figure = FigureOfJson(absl::StripAsciiWhitespace(output))) return figure;
  std::optional<double> last;
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    if (const auto figure = FigureOfJson(absl::StripAsciiWhitespace(line))) last = figure;
    if (const auto figure = FigureOfWords(line)) last = figure;
  }
  return last;
}

absl::StatusOr<double> ImagesPerSecondOf(const std::string& command) {
  ASSIGN_OR_RETURN(const Ended ended, RunInShell(command));
  if (ended.code != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--against: expected \"%s\" to succeed, found exit code %d and at the end of what it printed %s",
                        command, ended.code, EndOf(ended.output)));
  }
  const std::optional<double> figure = FindImagesPerSecond(ended.output);
  if (figure.has_value()) return *figure;
  return absl::InvalidArgumentError(absl::StrFormat(
      "--against: expected \"%s\" to print {\"images_per_s\": N} or N images/s, N above 0, found at the end of what it "
      "printed %s",
      command, EndOf(ended.output)));
}

absl::StatusOr<std::vector<Pair>> RunInTurn(const RunOurs& run, const std::string& command, int pairs) {
  std::vector<Pair> done;
  CountProgress progress("pair");
  while (static_cast<int>(done.size()) < pairs) {
    Pair pair;
    ASSIGN_OR_RETURN(pair.ours, run());
    ASSIGN_OR_RETURN(pair.peer, ImagesPerSecondOf(command));
    done.push_back(pair);
    progress.Show(static_cast<int64_t>(done.size()), pairs, absl::StrFormat(", ratio %.3f", pair.ratio()));
  }
  return done;
}

void PrintPairs(const std::string& command, const std::vector<Pair>& pairs) {
  PrintLine("");
  PrintLine(absl::StrCat("in turn with: ", command));
  PrintLine(absl::StrFormat("%6s %12s %15s %8s", "pair", "images/s", "its images/s", "ratio"));
  for (size_t i = 0; i < pairs.size(); ++i) {
    PrintLine(absl::StrFormat("%6d %12.1f %15.1f %8.3f", i + 1, pairs[i].ours, pairs[i].peer, pairs[i].ratio()));
  }
  const std::vector<double> ratios = Ratios(pairs);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  PrintLine(absl::StrFormat("ratio %.3f (median; %.3f to %.3f, a spread of %.1f %%)", engine::Median(ratios), *least, *most,
                            100 * engine::SpreadOf(ratios)));
}

Json PairsJson(const std::string& command, const std::vector<Pair>& pairs) {
  const std::vector<double> ratios = Ratios(pairs);
  Json json = {{"command", command},
               {"ratio", {{"median", engine::Median(ratios)}, {"spread", engine::SpreadOf(ratios)}}},
               {"pairs", Json::array()}};
  for (const Pair& pair : pairs) {
    json["pairs"].push_back({{"images_per_s", pair.ours}, {"peer_images_per_s", pair.peer}, {"ratio", pair.ratio()}});
  }
  return json;
}

}  // namespace colonnade::cli
