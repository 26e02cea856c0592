// What OpenMP is told before it is loaded: how long threads of a team spin, and that no thread is bound to a core by it.
#ifndef COLONNADE_CLI_COMMAND_LINE_OPENMP_H_
#define COLONNADE_CLI_COMMAND_LINE_OPENMP_H_

#include <string>

namespace colonnade::cli {

// OpenMP reads its environment when it is loaded, so where something is to be changed the process starts itself once more.
//   * Waiting threads spin for some tens of microseconds, not for ten milliseconds as libgomp does by itself: beside other
//     work on the machine they would take the cores from those that they wait for. Stays as it is where OMP_WAIT_POLICY or
//     GOMP_SPINCOUNT say what the user wants.
//   * Threads are bound to no core. OpenMP would bind those of every device to the same ones; devices keep their threads to
//     cores of their own, which are those that OMP_PLACES or GOMP_CPU_AFFINITY names, or all.
void SetUpOpenMp(char** argv);

// Returns shell text that restores the user's own limit of spinning for child processes.
std::string WithoutLimitOfSpinning();

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_OPENMP_H_
