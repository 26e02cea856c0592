// Real data sets that lie beside the source tree, or where COLONNADE_SHARED says; tests that use them are skipped without.
#ifndef COLONNADE_TESTS_SHARED_DATA_H_
#define COLONNADE_TESTS_SHARED_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/paths.h"

namespace colonnade {

inline std::string SharedData(const std::string& name) {
  const char* folder = std::getenv("COLONNADE_SHARED");
  return (folder == nullptr ? std::string(kSourceDir) + "/../shared" : std::string(folder)) + "/data/" + name;
}

}  // namespace colonnade

// In a test that uses the file or folder of that name.
#define SKIP_WITHOUT_SHARED_DATA(name)                         \
  if (!std::filesystem::exists(::colonnade::SharedData(name))) \
  GTEST_SKIP() << "skipped: it needs " << ::colonnade::SharedData(name) << ", which is not there"

#endif  // COLONNADE_TESTS_SHARED_DATA_H_
