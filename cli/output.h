// What commands print on stdout.
#ifndef COLONNADE_CLI_OUTPUT_H_
#define COLONNADE_CLI_OUTPUT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace colonnade::cli {

void PrintLine(const std::string& line);
// One line; bytes of file names that are no UTF-8 are replaced.
void PrintJson(const nlohmann::ordered_json& json);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_OUTPUT_H_
