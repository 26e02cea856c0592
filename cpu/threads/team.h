// OpenMP's teams: what a device can have, and what it gets.
//
// oneDNN's kernels wait for each other, so that a team of fewer threads than a primitive was made for waits for ever.
#ifndef COLONNADE_CPU_TEAM_H_
#define COLONNADE_CPU_TEAM_H_

namespace colonnade::cpu {

// Threads that OpenMP would give a team of the calling thread at most: what OMP_NUM_THREADS, OMP_THREAD_LIMIT and the cores
// that it may use allow; at least 1.
int MostTeamThreads();

// Makes `threads` the size of the calling thread's teams, exactly, and opens one. Returns how many threads it had: fewer
// where OMP_THREAD_LIMIT, or another limit that only its user can raise, is in the way.
int OpenTeam(int threads);

// Whether OpenMP binds the threads of teams to its places, as OMP_PROC_BIND or OMP_PLACES can ask: those of all devices to
// the same places, from the first one on.
bool TeamsAreBound();

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_TEAM_H_
