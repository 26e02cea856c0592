#include "cli/command_line/openmp.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cpu/threads/cores.h"
#include "cpu/threads/team.h"

namespace colonnade::cli {
namespace {

constexpr char kVariable[] = "GOMP_SPINCOUNT", kSpins[] = "3000";
constexpr char kBind[] = "OMP_PROC_BIND", kUnbound[] = "false";

// Says whether the environment has changed.
bool LimitSpinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kVariable) != nullptr) return false;
  return ::setenv(kVariable, kSpins, /*overwrite=*/0) == 0;
}

// Says whether the environment has changed.
bool EndBinding() {
  const char* const bind = std::getenv(kBind);
  if (!cpu::TeamsAreBound() || (bind != nullptr && bind == std::string(kUnbound))) return false;
  cpu::KeepToCores(cpu::CoresOfProcess());  // OpenMP has bound this thread already
  std::string ended;                        // for `info`
  for (const char* name : {kBind, "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (const char* value = std::getenv(name)) absl::StrAppend(&ended, ended.empty() ? "" : " ", name, "=", value);
    ::unsetenv(name);
  }
  ::setenv("COLONNADE_ENDED_BINDING", ended.c_str(), /*overwrite=*/1);
  return ::setenv(kBind, kUnbound, /*overwrite=*/1) == 0;
}

}  // namespace

void SetUpOpenMp(char** argv) {
  const bool spins_less = LimitSpinning(), binds_less = EndBinding();
  if (!spins_less && !binds_less) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::execv(program.c_str(), argv);  // where this fails, threads spin longer, or are bound
}

// A user who asks for as many loses that.
std::string WithoutLimitOfSpinning() {
  const char* const spins = std::getenv(kVariable);
  return spins != nullptr && spins == std::string(kSpins) ? absl::StrCat("unset ", kVariable, "\n") : "";
}

}  // namespace colonnade::cli
