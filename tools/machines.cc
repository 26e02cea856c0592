#include "tools/machines.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/io/file.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"

namespace colonnade::tools {
namespace {

constexpr char kLocal[] = "local", kFallback[] = "cpu-2core";
constexpr int64_t kLargestProfile = int64_t{1} << 26;

using Notes = std::vector<std::string>;

absl::StatusOr<engine::Machine> Parse(const std::string& name, absl::string_view json, Notes& notes) {
  absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(json);
  if (!machine.ok()) return absl::Status(machine.status().code(), absl::StrCat(name, ": ", machine.status().message()));
  for (const std::string& warning : machine->warnings) notes.push_back(absl::StrCat("warning: ", name, ": ", warning));
  return machine;
}

absl::StatusOr<engine::Machine> FromFile(const std::string& path, Notes& notes) {
  ASSIGN_OR_RETURN(std::string json, engine::ReadFile(path, kLargestProfile));
  ASSIGN_OR_RETURN(engine::Machine machine, Parse(path, json, notes));
  machine.file = path;
  return machine;
}

absl::StatusOr<engine::Machine> Open(std::string name, const std::string& precision, Notes& notes) {
  std::error_code error;
  if (name == kLocal) {
    const std::string own = LocalMachinePath(precision);
    const std::string path = std::filesystem::exists(own, error) ? own : LocalMachinePath();
    if (std::filesystem::exists(path, error)) {
      notes.push_back(absl::StrCat("machine local: ", path));
      ASSIGN_OR_RETURN(engine::Machine machine, FromFile(path, notes));
      if (machine.name == kLocal) machine.file.clear();
      return machine;
    }
    notes.push_back(absl::StrFormat("machine local: not calibrated yet, %s instead; `%s` measures this machine", kFallback,
                                    CalibrationOf(precision)));
    name = kFallback;
  }
  std::vector<std::string> names;
  for (const data::EmbeddedFile& file : ShippedMachines()) {
    names.emplace_back(absl::StripSuffix(file.name, ".json"));
    if (names.back() == name) return Parse(name, file.bytes, notes);
  }
  if (name.find('/') != std::string::npos || name.find('.') != std::string::npos || std::filesystem::exists(name, error)) {
    return FromFile(name, notes);
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("unknown machine \"%s\"%s; expected one of %s, local, or a profile file", name,
                      program::DidYouMean(", ", name, names), absl::StrJoin(names, ", ")));
}

}  // namespace

std::string LocalMachinePath(const std::string& precision) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder =
      cache != nullptr && *cache != '\0' ? cache : absl::StrCat(home != nullptr ? home : ".", "/.cache");
  return absl::StrCat(folder, "/colonnade/machine", precision == kUsualPrecision ? "" : absl::StrCat("-", precision),
                      ".json");
}

absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes,
                                            const std::string& precision) {
  std::vector<std::string> ignored;
  std::vector<std::string>& to = notes != nullptr ? *notes : ignored;
  absl::StatusOr<engine::Machine> machine = Open(name, precision, to);
  if (!machine.ok()) return machine;
  if (const std::string warning = PrecisionWarning(*machine, precision); !warning.empty()) {
    to.push_back(absl::StrCat("warning: ", warning));
  }
  return machine;
}

std::string CalibrationOf(const std::string& precision) {
  return precision == "bf16" ? "colonnade calibrate --dtype=bf16" : "colonnade calibrate";
}

std::string PrecisionWarning(const engine::Machine& machine, const std::string& precision) {
  const bool is_of_cpu = machine.cores.value > 0;  // those stated no precision while there was one
  const std::string timed = machine.precision.empty() && is_of_cpu ? kUsualPrecision : machine.precision;
  if (timed.empty() || timed == precision) return "";
  const bool is_here = machine.name == kLocal && is_of_cpu && precision != "tf32";
  return absl::StrFormat("machine %s: its rates are of kernels in %s, the step is in %s%s", machine.Title(), timed,
                         precision, is_here ? absl::StrCat("; `", CalibrationOf(precision), "` measures those") : "");
}

}  // namespace colonnade::tools
