// How long threads of an OpenMP team spin before they sleep.
#ifndef COLONNADE_CLI_WAITING_H_
#define COLONNADE_CLI_WAITING_H_

#include <string>

namespace colonnade::cli {

// Lets waiting threads spin for some tens of microseconds, not for ten milliseconds as libgomp does by itself: beside other
// work on the machine they would take the cores from those that they wait for. libgomp reads this when it is loaded, so the
// process starts itself once more. Does nothing where OMP_WAIT_POLICY or GOMP_SPINCOUNT say what the user wants.
void LimitSpinning(char** argv);

// Words of a shell that give its children the user's environment again.
std::string WithoutLimitOfSpinning();

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_WAITING_H_
