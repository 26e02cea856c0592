#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "engine/io/file.h"
#include "program/status_macros.h"
#include "tools/calibration.h"
#include "tools/machines.h"
#include "tools/network_file.h"

namespace colonnade::cli {
namespace {

constexpr int kSlices = 5;
constexpr absl::Duration kSliceTime = absl::Milliseconds(100);

absl::StatusOr<std::string> OpenOutput(const Flags& flags) {
  const std::string path = flags.out.empty() ? tools::LocalMachinePath() : flags.out;
  std::error_code error;
  if (flags.out.empty()) std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  RETURN_IF_ERROR(engine::CheckWritable(path));
  return path;
}

absl::StatusOr<tools::CalibrationTarget> TargetOf(const Flags& flags) {
  if (flags.backend != "cuda") return tools::CpuTarget(flags.devices > 0 ? flags.devices : tools::CoreCount());
  ASSIGN_OR_RETURN(tools::Gpus gpus, FindGpus());
  tools::CalibrationTarget target = tools::GpuTarget(gpus, flags.devices, flags.dtype);
  target.dtype = DTypeOf(flags);
  target.make_backend =
      target.make_mover = [flags](int devices) { return OpenBackend(flags, devices, 1, /*times_tasks=*/true); };
  return target;
}

// Those of --transfers; none where they are to be timed here.
absl::StatusOr<std::vector<tools::TransferTime>> TransfersOf(const Flags& flags) {
  if (flags.transfers.empty()) return std::vector<tools::TransferTime>();
  ASSIGN_OR_RETURN(std::string text, engine::ReadFile(flags.transfers));
  absl::StatusOr<std::vector<tools::TransferTime>> read = tools::ReadTransfers(text);
  if (read.ok()) return read;
  return absl::Status(read.status().code(), absl::StrCat(flags.transfers, ": ", read.status().message()));
}

// Runs all plans of the networks, and says on stderr how far that is.
absl::Status RunPlans(const Flags& flags, int devices, tools::Calibration& calibration) {
  const std::vector<std::string> names = flags.model.empty() ? std::vector<std::string>{"lenet", "alexnet2012", "alexnet"}
                                                             : std::vector<std::string>{flags.model};
  // Batches on both sides of the one that is asked for, divisible by every number of devices.
  const int64_t unit = 4 * devices;
  const int64_t below = std::max<int64_t>(flags.batch * 3 / 4 / unit, 1) * unit,
                above = std::max<int64_t>(flags.batch * 3 / 2 / unit, 2) * unit;
  const std::vector<tools::CalibrationPlan> plans = tools::CalibrationPlans(devices);
  const absl::Time begin = absl::Now();
  size_t done = 0;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const tools::Network network, tools::OpenNetwork(name));
    for (const tools::CalibrationPlan& plan : plans) {
      RETURN_IF_ERROR(calibration.Load(network.graph, plan, {below, above}));
      for (int slice = 0; slice < kSlices; ++slice) {
        for (int p = 0; p < calibration.loaded(); ++p) {
          RETURN_IF_ERROR(calibration.Run(p, 1, kSliceTime));
        }
      }
      const double part = static_cast<double>(++done) / static_cast<double>(names.size() * plans.size());
      const double elapsed = absl::ToDoubleSeconds(absl::Now() - begin);
      std::fprintf(stderr, "%s\n",
                   absl::StrFormat("calibrate: %s, %s on %d, %.2g plans/s, %.0f s left", name, plan.name, plan.devices,
                                   static_cast<double>(done) / elapsed, elapsed / part - elapsed)
                       .c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunCalibrate(const Flags& flags) {
  if (flags.backend == "cuda" && flags.out.empty()) {
    return absl::FailedPreconditionError(
        "--backend=cuda: expected --out=FILE, found none; the profile named local is the CPU's");
  }
  RETURN_IF_ERROR(CheckBackend(flags));
  ASSIGN_OR_RETURN(std::string path, OpenOutput(flags));
  ASSIGN_OR_RETURN(tools::CalibrationTarget target, TargetOf(flags));
  ASSIGN_OR_RETURN(std::vector<tools::TransferTime> transfers, TransfersOf(flags));
  const absl::Time begin = absl::Now();
  const int devices = target.devices;
  tools::Calibration calibration(std::move(target));
  RETURN_IF_ERROR(RunPlans(flags, devices, calibration));
  if (flags.transfers.empty()) {
    RETURN_IF_ERROR(calibration.SweepTransfers());
  }
  calibration.AddTransfers(transfers);
  const engine::Machine machine = calibration.Result();
  RETURN_IF_ERROR(engine::ReplaceFile(path, engine::MachineToJson(machine)));
  if (flags.json) {
    PrintJson({{"machine", path}, {"devices", devices}, {"seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});
  } else {
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
