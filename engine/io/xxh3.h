// XXH3, a fast hash of 64 bits (libxxhash): it finds damage, and is no protection against forgery.
#ifndef COLONNADE_ENGINE_XXH3_H_
#define COLONNADE_ENGINE_XXH3_H_

#include <string>

#include "absl/strings/string_view.h"

namespace colonnade::engine {

std::string Xxh3Text(absl::string_view bytes);  // its sixteen hexadecimal digits

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_XXH3_H_
