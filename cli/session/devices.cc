#include "cli/session/devices.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cpu/about.h"
#include "cpu/backend.h"
#include "cuda/backend.h"
#include "tools/planning.h"

namespace colonnade::cli {
namespace {

absl::Status CheckFlagsOfCpu(const BackendFlags& flags) {
  if (flags.kernels == "winograd" && !cpu::HasWinograd()) {
    return absl::FailedPreconditionError(
        "--kernels=winograd: expected a processor with AVX-512, or AVX2 and FMA; take --kernels=onednn");
  }
  if (flags.dtype == "tf32") {
    return absl::FailedPreconditionError("--dtype=tf32: tf32 needs --backend=cuda");
  }
  if (flags.collectives != "auto") {
    return absl::FailedPreconditionError(
        absl::StrFormat("--collectives=%s: only GPUs have a choice of them (--backend=cuda)", flags.collectives));
  }
  if (flags.cuda_graphs == "on") {
    return absl::FailedPreconditionError("--cuda-graphs=on: steps are CUDA graphs on GPUs (--backend=cuda)");
  }
  if (!flags.search_algorithms.empty()) {
    return absl::FailedPreconditionError("--search-algorithms: algorithms are searched on GPUs (--backend=cuda)");
  }
  return absl::OkStatus();
}

cuda::Collectives CollectivesOf(const BackendFlags& flags) {
  if (flags.collectives == "nccl") return cuda::Collectives::kNccl;
  return flags.collectives == "peer" ? cuda::Collectives::kPeer : cuda::Collectives::kAuto;
}

cuda::Graphs GraphsOf(const BackendFlags& flags, bool times_tasks) {
  if (flags.cuda_graphs == "off" || times_tasks) return cuda::Graphs::kOff;
  return flags.cuda_graphs == "on" ? cuda::Graphs::kOn : cuda::Graphs::kAuto;
}

// Unavailable where there is none that can be used; a GPU that fails while it is opened, or for which no module can be
// loaded, is another error.
absl::Status NoCuda(const absl::Status& why) {
  // No file and no flag is at fault.
  const absl::StatusCode code = absl::IsInvalidArgument(why) ? absl::StatusCode::kInternal : why.code();
  return absl::Status(code, absl::StrCat("--backend=cuda: ", why.message(), "; use --backend=cpu"));
}

}  // namespace

absl::Status CheckBackend(const BackendFlags& flags) {
  return flags.name == "cpu" ? CheckFlagsOfCpu(flags) : flags.name == "cuda" ? FindGpus().status() : absl::OkStatus();
}

absl::StatusOr<tools::Gpus> FindGpus() {
  absl::StatusOr<tools::Gpus> gpus = tools::FindGpus();
  return gpus.ok() ? gpus : NoCuda(gpus.status());
}

absl::StatusOr<std::unique_ptr<engine::Backend>> OpenBackend(const BackendFlags& flags, int devices, int threads_per_device,
                                                             bool times_tasks) {
  if (flags.name != "cpu") {
    absl::StatusOr<std::unique_ptr<cuda::Calls>> calls = cuda::OpenCuda(flags.search_algorithms, devices);
    if (calls.ok()) {
      if (flags.kernels != "onednn") {
        return absl::FailedPreconditionError(absl::StrFormat(
            "--kernels=%s: expected --backend=cpu, whose kernels these are; the GPU has its own", flags.kernels));
      }
      return cuda::MakeCudaBackend({.devices = devices,
                                    .precision = flags.dtype == "tf32" ? cuda::Precision::kTf32 : cuda::Precision::kF32,
                                    .deterministic = flags.deterministic,
                                    .collectives = CollectivesOf(flags),
                                    .graphs = GraphsOf(flags, times_tasks),
                                    .times_tasks = times_tasks},
                                   *std::move(calls));
    }
    const bool of_file = absl::IsInvalidArgument(calls.status()) || absl::IsDataLoss(calls.status());
    if (of_file && !flags.search_algorithms.empty()) return calls.status();
    if (flags.name == "cuda") return NoCuda(calls.status());
    static bool said = false;
    if (!absl::IsUnavailable(calls.status()) && !std::exchange(said, true)) {
      Warn(absl::StrCat("no GPU is used, since one that is there cannot be opened: ", calls.status().message()));
    }
  }
  RETURN_IF_ERROR(CheckFlagsOfCpu(flags));
  return cpu::MakeCpuBackend(
      {.devices = devices, .threads_per_device = threads_per_device, .kernels = *cpu::KernelsFromName(flags.kernels)});
}

std::string ProductsOnCpu(const BackendFlags& flags) {
  if (flags.dtype != "bf16") return "";
  if (flags.kernels == "reference") return ", bf16 (rounded doubles)";
  const std::string by_winograd = flags.kernels == "winograd" ? cpu::Bf16WinogradProducts() : "";
  const std::string first = by_winograd.empty() ? "" : absl::StrCat("convolutions by Winograd ", by_winograd, "; else ");
  return absl::StrCat(", bf16 (", first, cpu::Bf16Products(), ")");
}

tools::KernelChoice KernelsOf(const BackendFlags& flags) {
  return {.kernels = flags.kernels, .precision = flags.dtype == "auto" ? "fp32" : flags.dtype};
}

absl::StatusOr<engine::Machine> OpenMachine(const ProfileFlags& flags, const BackendFlags& backend) {
  std::vector<std::string> notes;
  absl::StatusOr<engine::Machine> machine = tools::OpenMachine(flags.machine, &notes, KernelsOf(backend));
  static std::set<std::string> said;  // a command may open it twice
  for (const std::string& note : notes) {
    if (said.insert(note).second) Say(note);
  }
  if (machine.ok() && flags.input_rate > 0) {
    machine->input_images_per_sec = {flags.input_rate, engine::Origin::kMeasured, "--input-rate"};
  }
  return machine;
}

nlohmann::ordered_json KernelsJson(const BackendFlags& flags, const engine::Machine& machine) {
  return machine.cores.value > 0 ? nlohmann::ordered_json(flags.kernels) : nlohmann::ordered_json();
}

nlohmann::ordered_json MachineFileJson(const engine::Machine& machine) { return OrNull(machine.file); }

void WarnOfFit(const engine::Machine& machine, const layers::LayerGraph& graph) {
  const std::string warning = tools::FitWarning(machine, graph);
  if (!warning.empty()) Warn(warning);
}

}  // namespace colonnade::cli
