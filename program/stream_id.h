// The random-number stream of a layer or parameter, by its name.
#ifndef COLONNADE_PROGRAM_STREAM_ID_H_
#define COLONNADE_PROGRAM_STREAM_ID_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace colonnade::program {

// FNV-1a of `name`, 32 bits: the same on every machine and in every run.
inline uint32_t StreamOfName(absl::string_view name) {
  uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace colonnade::program

#endif  // COLONNADE_PROGRAM_STREAM_ID_H_
