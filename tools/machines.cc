#include "tools/machines.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "data/user_cache.h"
#include "engine/io/file.h"

namespace colonnade::tools {
namespace {

constexpr char kLocal[] = "local", kFallback[] = "cpu-2core";
constexpr int64_t kLargestProfile = int64_t{1} << 26;

using Notes = std::vector<std::string>;

absl::StatusOr<engine::Machine> Parse(const std::string& name, absl::string_view json, Notes& notes) {
  absl::StatusOr<engine::Machine> machine = engine::MachineFromJson(json);
  if (!machine.ok()) return base::WithContext(machine.status(), name);
  for (const std::string& warning : machine->warnings) notes.push_back(absl::StrCat("warning: ", name, ": ", warning));
  return machine;
}

absl::StatusOr<engine::Machine> FromFile(const std::string& path, Notes& notes) {
  ASSIGN_OR_RETURN(std::string json, engine::ReadFile(path, kLargestProfile));
  ASSIGN_OR_RETURN(engine::Machine machine, Parse(path, json, notes));
  machine.file = path;
  return machine;
}

absl::StatusOr<engine::Machine> Open(std::string name, const KernelChoice& choice, Notes& notes) {
  std::error_code error;
  if (name == kLocal) {
    const std::string own = LocalMachinePath(choice);
    const std::string path = std::filesystem::exists(own, error) ? own : LocalMachinePath();
    if (std::filesystem::exists(path, error)) {
      notes.push_back(absl::StrCat("machine local: ", path));
      ASSIGN_OR_RETURN(engine::Machine machine, FromFile(path, notes));
      if (machine.name == kLocal) machine.file.clear();
      return machine;
    }
    notes.push_back(
        absl::StrFormat("machine local: not calibrated yet, so the times are those of %s; `%s` measures this machine",
                        kFallback, CalibrationOf(choice)));
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
                      base::DidYouMean(", ", name, names), absl::StrJoin(names, ", ")));
}

bool IsTimed(const KernelChoice& choice) {
  const std::vector<KernelChoice> timed = TimedKernelChoices();
  return std::find(timed.begin(), timed.end(), choice) != timed.end();
}

}  // namespace

absl::StatusOr<engine::Machine> ReadMachineFile(const std::string& path) {
  Notes notes;
  return FromFile(path, notes);
}

std::vector<KernelChoice> TimedKernelChoices() {
  std::vector<KernelChoice> choices;
  for (const char* kernels : engine::kTimedKernels) {
    for (const char* precision : {"fp32", "bf16"}) choices.push_back({kernels, precision});
  }
  return choices;
}

std::string LocalMachinePath(const KernelChoice& choice) {
  const KernelChoice usual;
  const std::string folder = data::UserCacheFolder();
  if (folder.empty()) return "";
  return absl::StrCat(folder, "/machine",  //
                      choice.kernels == usual.kernels ? "" : absl::StrCat("-", choice.kernels),
                      choice.precision == usual.precision ? "" : absl::StrCat("-", choice.precision), ".json");
}

absl::StatusOr<engine::Machine> OpenMachine(const std::string& name, std::vector<std::string>* notes,
                                            const KernelChoice& choice) {
  std::vector<std::string> ignored;
  std::vector<std::string>& to = notes != nullptr ? *notes : ignored;
  absl::StatusOr<engine::Machine> machine = Open(name, choice, to);
  if (!machine.ok()) return machine;
  if (const std::string warning = KernelWarning(*machine, choice); !warning.empty()) {
    to.push_back(absl::StrCat("warning: ", warning));
  }
  return machine;
}

std::string CalibrationOf(const KernelChoice& choice) {
  const KernelChoice usual;
  if (!IsTimed(choice)) return CalibrationOf(usual);
  return absl::StrCat("colonnade calibrate",
                      choice.kernels == usual.kernels ? "" : absl::StrCat(" --kernels=", choice.kernels),
                      choice.precision == usual.precision ? "" : absl::StrCat(" --dtype=", choice.precision),
                      LocalMachinePath().empty() ? " --out=FILE" : "");
}

std::string KernelWarning(const engine::Machine& machine, const KernelChoice& choice) {
  const bool is_of_cpu = machine.cores.value > 0;
  KernelChoice timed{.kernels = machine.kernels, .precision = machine.precision};
  if (is_of_cpu) {  // profiles stated nothing while there was one choice
    const KernelChoice usual;
    if (timed.kernels.empty()) timed.kernels = usual.kernels;
    if (timed.precision.empty()) timed.precision = usual.precision;
  }
  const bool other_kernels = !timed.kernels.empty() && timed.kernels != choice.kernels,
             other_precision = !timed.precision.empty() && timed.precision != choice.precision;
  if (!other_kernels && !other_precision) return "";
  const auto text = [&](const KernelChoice& of) {
    return absl::StrCat(other_kernels ? absl::StrCat("of ", of.kernels, " kernels") : "",
                        other_kernels && other_precision ? " " : "",
                        other_precision ? absl::StrCat("in ", of.precision) : "");
  };
  const bool is_to_be_timed = machine.name == kLocal && is_of_cpu && IsTimed(choice);
  return absl::StrFormat("machine %s: its rates are %s%s, the step is %s%s", machine.Title(),
                         other_kernels ? "" : "of kernels ", text(timed), text(choice),
                         is_to_be_timed ? absl::StrCat("; `", CalibrationOf(choice), "` measures those") : "");
}

}  // namespace colonnade::tools
