#include "cli/training/precision.h"

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/output/progress.h"
#include "cli/session/devices.h"
#include "engine/statistics.h"
#include "tools/measure.h"

namespace colonnade::cli {
namespace {

constexpr int kTurns = 3, kStepsOfTurn = 2;

absl::Status CheckChoice(const TrainFlags& flags) {
  if (flags.checkpoint.resume.has_value()) {
    return absl::FailedPreconditionError("--dtype=auto: expected fp32 or bf16, that of the run which --resume goes on");
  }
  if (flags.backend.name != "cuda" && flags.backend.kernels == "reference") {
    return absl::FailedPreconditionError(
        absl::StrCat("--dtype=auto: expected --kernels=onednn or winograd, whose speed depends on the type, found ",
                     flags.backend.kernels));
  }
  return absl::OkStatus();
}

absl::StatusOr<program::Program> ProgramIn(const std::string& dtype, TrainFlags flags, const Session& session) {
  flags.backend.dtype = dtype;
  return partition::Lower(session.graph, session.plan, LowerOptionsOf(flags, session, program::Mode::kTrain));
}

// Median seconds of a step by element type, of Programs that take turns.
absl::StatusOr<std::map<std::string, double>> StepSeconds(TrainFlags flags, const Session& session) {
  ASSIGN_OR_RETURN(const program::Program fp32, ProgramIn("fp32", flags, session));
  ASSIGN_OR_RETURN(const program::Program bf16, ProgramIn("bf16", flags, session));
  std::map<std::string, std::unique_ptr<tools::StepMeter>> meters;
  flags.backend.dtype = "fp32";
  ASSIGN_OR_RETURN(std::shared_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, session.plan.mesh.device_count(), session.threads_per_device));
  if (backend->name() == "cpu") RETURN_IF_ERROR(CheckMemory(flags, session, {&fp32, &bf16}));
  for (const char* dtype : {"fp32", "bf16"}) {
    flags.backend.dtype = dtype;
    const partition::LowerOptions lower = LowerOptionsOf(flags, session, program::Mode::kTrain);
    ASSIGN_OR_RETURN(meters[dtype], tools::StepMeter::Create(session.graph, session.plan, lower, backend));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (auto& [dtype, meter] : meters) RETURN_IF_ERROR(meter->Run(kStepsOfTurn));
  }
  std::map<std::string, double> seconds;
  for (auto& [dtype, meter] : meters) seconds[dtype] = engine::Median(meter->step_seconds());
  return seconds;
}

}  // namespace

absl::Status ChooseDtype(const Session& session, TrainFlags& flags) {
  if (flags.backend.dtype != "auto") return absl::OkStatus();
  RETURN_IF_ERROR(CheckChoice(flags));
  ASSIGN_OR_RETURN(const auto seconds, StepSeconds(flags, session));
  const double fp32 = seconds.at("fp32"), bf16 = seconds.at("bf16");
  flags.backend.dtype = bf16 < fp32 ? "bf16" : "fp32";
  for (ResolvedFlag& flag : flags.resolved) {
    if (flag.name == "dtype") flag.values = {flags.backend.dtype};
  }
  Say(absl::StrFormat("--dtype=auto: a step takes %.3g ms in fp32 and %.3g ms in bf16 (medians of %d): --dtype=%s",
                      1e3 * fp32, 1e3 * bf16, kTurns * kStepsOfTurn, flags.backend.dtype));
  return absl::OkStatus();
}

}  // namespace colonnade::cli
