// What reads bytes that somebody else wrote, as functions of these bytes: a fuzzer and the tests call them with any.
#ifndef COLONNADE_TESTS_FUZZ_TARGETS_H_
#define COLONNADE_TESTS_FUZZ_TARGETS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace colonnade::fuzz {

struct Target {
  const char* name;  // and the folder of its corpus
  // Returns whether the bytes were taken, and ends the process where what was read from them is not written and read again.
  bool (*reads)(absl::string_view bytes);
};

const std::vector<Target>& AllTargets();

}  // namespace colonnade::fuzz

#endif  // COLONNADE_TESTS_FUZZ_TARGETS_H_
