#include "cli/command_line/launcher.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace colonnade::cli {
namespace {

// The variables in which each says how many processes it has started, and which of them this one is. Slurm sets its other
// ones in a job's own script, too, which is one process.
struct Launcher {
  const char *name, *count, *rank;
};
constexpr Launcher kLaunchers[] = {{"torchrun or its like", "WORLD_SIZE", "RANK"},
                                   {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"mpiexec or srun", "PMI_SIZE", "PMI_RANK"},
                                   {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

}  // namespace

std::string LauncherNote(const std::function<const char*(const char* variable)>& value_of) {
  for (const Launcher& launcher : kLaunchers) {
    const char *count = value_of(launcher.count), *rank = value_of(launcher.rank);
    int64_t processes = 0;
    if (count == nullptr || rank == nullptr || !absl::SimpleAtoi(count, &processes) || processes < 2) continue;
    return absl::StrFormat(
        "this is process %s of %d that %s has started (%s=%d): each of them trains by itself; one process drives all "
        "devices of a run (--devices)",
        rank, processes, launcher.name, launcher.count, processes);
  }
  return "";
}

}  // namespace colonnade::cli
