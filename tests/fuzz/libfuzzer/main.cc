// The target that COLONNADE_FUZZ_TARGET names, for libFuzzer: tests/fuzz.sh.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/targets.h"

namespace {

const colonnade::fuzz::Target& NamedTarget() {
  const char* name = std::getenv("COLONNADE_FUZZ_TARGET");
  for (const colonnade::fuzz::Target& target : colonnade::fuzz::AllTargets()) {
    if (name != nullptr && std::strcmp(target.name, name) == 0) return target;
  }
  std::fprintf(stderr, "COLONNADE_FUZZ_TARGET: expected the name of a target (tests/fuzz/targets.cc), found %s\n", name);
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const colonnade::fuzz::Target& target = NamedTarget();
  (void)target.reads({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
