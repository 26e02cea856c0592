// Names that people type and names that key random numbers.
#ifndef COLONNADE_PROGRAM_NAMES_H_
#define COLONNADE_PROGRAM_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace colonnade::program {

// The candidate with the least edit distance (Levenshtein) to `name`; empty if none is nearer than half its length.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

// The random-number stream of a layer or parameter: FNV-1a of its name, 32 bits, the same everywhere.
uint32_t StreamOfName(absl::string_view name);

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_NAMES_H_
