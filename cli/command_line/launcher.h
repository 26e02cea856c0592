// Programs that start a process for each device or node (torchrun, mpirun, srun), as a run here does not want.
#ifndef COLONNADE_CLI_COMMAND_LINE_LAUNCHER_H_
#define COLONNADE_CLI_COMMAND_LINE_LAUNCHER_H_

#include <functional>
#include <string>

namespace colonnade::cli {

// Returns a sentence for the user where the environment says that this process is one of several; else "". `value_of` is
// ::getenv.
std::string LauncherNote(const std::function<const char*(const char* variable)>& value_of);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_LAUNCHER_H_
