// What commands print, and how the words of others look in it: names from files and from the command line may hold what a
// terminal obeys. May be called from any thread.
#ifndef COLONNADE_CLI_OUTPUT_OUTPUT_H_
#define COLONNADE_CLI_OUTPUT_OUTPUT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// Returns `text` with its control characters escaped as C does, those of Unicode too.
std::string Printable(absl::string_view text);
// The same of text that has lines: their ends stay.
std::string PrintableLines(absl::string_view text);

// Returns the characters of `text`, UTF-8: a terminal shows each in a column.
size_t WidthOf(absl::string_view text);
// Returns `text` as Printable shows it, with spaces behind it up to `width` columns.
std::string PadRight(absl::string_view text, size_t width);

// Prints one line to stdout, as Printable shows it.
void PrintLine(absl::string_view line);
// One line of ASCII: all else is escaped as JSON does. Bytes of file names that are no UTF-8 are replaced.
void PrintJson(const nlohmann::ordered_json& json);

// Return the value, or null where it is empty.
nlohmann::ordered_json OrNull(const std::string& text);
template <class Value>
nlohmann::ordered_json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_OUTPUT_OUTPUT_H_
