// Where the tests find the source tree and the command that they run.
#ifndef COLONNADE_TESTS_PATHS_H_
#define COLONNADE_TESTS_PATHS_H_

namespace colonnade {

extern const char* const kSourceDir;
extern const char* const kCommand;  // the `colonnade` of this build

}  // namespace colonnade

#endif  // COLONNADE_TESTS_PATHS_H_
