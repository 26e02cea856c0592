// Numbers that an environment variable gives a test, so that it can run many more cases than it does by itself.
#ifndef COLONNADE_TESTS_ENVIRONMENT_H_
#define COLONNADE_TESTS_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>

namespace colonnade {

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

}  // namespace colonnade

#endif  // COLONNADE_TESTS_ENVIRONMENT_H_
