#include "cli/waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace colonnade::cli {

void LimitSpinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv("GOMP_SPINCOUNT", "3000", /*overwrite=*/0) != 0) return;
  ::execv(program.c_str(), argv);  // where this fails, threads spin longer
}

}  // namespace colonnade::cli
