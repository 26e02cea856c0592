#include "cpu/threads/team.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "cpu/status.h"

namespace colonnade::cpu {

int MostTeamThreads() { return std::max(1, std::min(omp_get_max_threads(), omp_get_thread_limit())); }

namespace {

// Starts threads that wait for each other, and ends them. OpenMP itself ends the process where the system refuses one.
absl::Status TryThreads(int count) {
  absl::Notification all_started;
  std::vector<std::thread> threads;
  absl::Status status;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { all_started.WaitForNotification(); });
  } catch (const std::exception& refused) {
    status = StatusOf(refused);
  }
  all_started.Notify();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace

absl::Status OpenTeam(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (threads == 1) return absl::OkStatus();  // nothing of OpenMP is entered
  RETURN_IF_ERROR(TryThreads(threads - 1));
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  int opened = 1;
#pragma omp parallel num_threads(threads)
#pragma omp single
  opened = omp_get_num_threads();
  if (opened >= threads) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("threads_per_device: ", threads, " were asked for, but OpenMP starts ",
                                                    opened, "; ask for ", opened, ", or raise OMP_THREAD_LIMIT"));
}

bool TeamsAreBound() { return omp_get_proc_bind() != omp_proc_bind_false; }

}  // namespace colonnade::cpu
