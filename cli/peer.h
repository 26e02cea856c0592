// Another program that trains the same network, or bounds what can be reached, run in turn with this one: `bench step
// --against`.
#ifndef COLONNADE_CLI_PEER_H_
#define COLONNADE_CLI_PEER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Returns the images a second that a program's output states: the last figure of any line, be it "images_per_s" of a JSON
// object or the number before the words images/s, or else the first behind them. A JSON object may take several lines if it
// is all of the output.
std::optional<double> FindImagesPerSecond(absl::string_view output);

// Runs the command in a shell, without input and in the user's environment. InvalidArgument, with the end of what it
// printed, where it fails or states no images a second.
absl::StatusOr<double> ImagesPerSecondOf(const std::string& command);

// Images a second of both, one run after the other.
struct Pair {
  double ours = 0, peer = 0;
  double ratio() const { return ours / peer; }
};
using RunOurs = std::function<absl::StatusOr<double>()>;
absl::StatusOr<std::vector<Pair>> RunInTurn(const RunOurs& run, const std::string& command, int pairs);

void PrintPairs(const std::string& command, const std::vector<Pair>& pairs);
nlohmann::ordered_json PairsJson(const std::string& command, const std::vector<Pair>& pairs);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_PEER_H_
