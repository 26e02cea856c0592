#include "cpu/threads/team.h"

#include <omp.h>

#include <algorithm>

namespace colonnade::cpu {

int MostTeamThreads() { return std::max(1, std::min(omp_get_max_threads(), omp_get_thread_limit())); }

int OpenTeam(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (threads == 1) return 1;  // nothing of OpenMP is entered
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  int opened = 1;
#pragma omp parallel num_threads(threads)
#pragma omp single
  opened = omp_get_num_threads();
  return opened;
}

bool TeamsAreBound() { return omp_get_proc_bind() != omp_proc_bind_false; }

}  // namespace colonnade::cpu
