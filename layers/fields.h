// The attributes of a layer by name, so that what writes layers into files, and reads them, names no type of layer.
#ifndef COLONNADE_LAYERS_FIELDS_H_
#define COLONNADE_LAYERS_FIELDS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "program/program.h"

namespace colonnade::layers {

inline constexpr int64_t kLargestCount = 1'000'000'000'000;  // of any field

// One attribute, and where the layer has it.
struct Field {
  const char* name;
  std::variant<int64_t*, double*, bool*, program::Shape*, program::Initializer*, std::optional<program::Initializer>*> value;
  int64_t least = 0;  // of a count, whatever the inputs
};

}  // namespace colonnade::layers

#endif  // COLONNADE_LAYERS_FIELDS_H_
