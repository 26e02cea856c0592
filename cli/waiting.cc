#include "cli/waiting.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace colonnade::cli {
namespace {

constexpr char kVariable[] = "GOMP_SPINCOUNT", kSpins[] = "3000";

}  // namespace

void LimitSpinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kVariable) != nullptr) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || ::setenv(kVariable, kSpins, /*overwrite=*/0) != 0) return;
  ::execv(program.c_str(), argv);  // where this fails, threads spin longer
}

// A user who asks for as many loses that.
std::string WithoutLimitOfSpinning() {
  const char* const spins = std::getenv(kVariable);
  return spins != nullptr && spins == std::string(kSpins) ? absl::StrCat("unset ", kVariable, "\n") : "";
}

}  // namespace colonnade::cli
