#include "cli/output.h"

#include <cstdio>

namespace colonnade::cli {

void PrintLine(const std::string& line) { std::printf("%s\n", line.c_str()); }

void PrintJson(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace colonnade::cli
