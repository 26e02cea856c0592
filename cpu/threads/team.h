// OpenMP's teams: what a device can have, and what it gets.
//
// oneDNN's kernels wait for each other, so that a team of fewer threads than a primitive was made for waits for ever.
#ifndef COLONNADE_CPU_TEAM_H_
#define COLONNADE_CPU_TEAM_H_

#include "absl/status/status.h"

namespace colonnade::cpu {

// Threads that OpenMP would give a team of the calling thread at most: what OMP_NUM_THREADS, OMP_THREAD_LIMIT and the cores
// that it may use allow; at least 1.
int MostTeamThreads();

// Makes `threads` the size of the calling thread's teams, exactly, and opens one. FailedPrecondition where it had fewer,
// since OMP_THREAD_LIMIT, or another limit that only its user can raise, is in the way; ResourceExhausted where the system
// starts no more threads.
absl::Status OpenTeam(int threads);

// Whether OpenMP binds the threads of teams to its places, as OMP_PROC_BIND or OMP_PLACES can ask: those of all devices to
// the same places, from the first one on.
bool TeamsAreBound();

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_TEAM_H_
