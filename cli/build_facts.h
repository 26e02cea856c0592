// How this program was built: what CMake knew when it configured (cmake/build_facts.cmake). Any thread.
#ifndef COLONNADE_CLI_BUILD_FACTS_H_
#define COLONNADE_CLI_BUILD_FACTS_H_

#include <string>

namespace colonnade::cli {

struct BuildFacts {
  std::string version;    // "0.1.0"
  std::string commit;     // `git describe` of the sources; empty: they were no checkout
  std::string type;       // "Release"
  std::string compiler;   // "GNU 12.2.0"
  std::string sanitizer;  // empty: none
  long standard = 0;      // __cplusplus
  bool cuda = false;      // whether the CUDA driver module was built
};
const BuildFacts& ThisBuild();

// "0.1.0 (a1b2c3d)"
std::string VersionText(const BuildFacts& build);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_BUILD_FACTS_H_
