// The spread of what was timed several times, as benchmarks show it: one timing alone has none.
#ifndef COLONNADE_CLI_OUTPUT_SPREAD_H_
#define COLONNADE_CLI_OUTPUT_SPREAD_H_

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/statistics.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

inline bool HaveSpread(const std::vector<double>& timings) { return timings.size() > 1; }

// engine::SpreadOf; null where there is none.
inline nlohmann::ordered_json SpreadJson(const std::vector<double>& timings) {
  return HaveSpread(timings) ? nlohmann::ordered_json(engine::SpreadOf(timings)) : nlohmann::ordered_json();
}

// "1.3 %"; "-" where there is none.
inline std::string SpreadText(const std::vector<double>& timings) {
  return HaveSpread(timings) ? absl::StrFormat("%.1f %%", 100 * engine::SpreadOf(timings)) : "-";
}

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_OUTPUT_SPREAD_H_
