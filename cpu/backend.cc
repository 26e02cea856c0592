#include "cpu/backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cpu/about.h"
#include "cpu/device.h"
#include "cpu/load/arena.h"
#include "cpu/load/loaded.h"
#include "cpu/status.h"
#include "cpu/threads/announce.h"
#include "cpu/threads/core_waits.h"
#include "cpu/threads/cores.h"
#include "cpu/threads/denormals.h"
#include "cpu/threads/team.h"

namespace colonnade::cpu {

namespace {

class CpuBackend : public engine::Backend {
 public:
  explicit CpuBackend(Resources resources) : resources_(std::make_shared<Resources>(std::move(resources))) {}

  std::string name() const override { return "cpu"; }
  int device_count() const override { return static_cast<int>(resources_->devices.size()); }

  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&slots)[2]) override {
    return CatchErrors([&]() -> absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> {
      ASSIGN_OR_RETURN(std::unique_ptr<CpuProgram> loaded, CpuProgram::Load(*resources_, program, slots));
      loaded->Hold(resources_);
      return {std::move(loaded)};
    });
  }

  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program& program) override {
    return CatchErrors([&] { return CpuProgram::MemoryOf(*resources_, program); });
  }

  int64_t TakenBytes(int device) const override { return resources_->books.taken_bytes(device); }

 private:
  const std::shared_ptr<Resources> resources_;
};

int ThreadsPerDevice(const CpuOptions& options) {
  if (kThreadSanitizer) return 1;  // it cannot see into an OpenMP team
  return options.threads_per_device > 0 ? options.threads_per_device : DefaultThreadsPerDevice(options.devices);
}

// Device `number`, whose compute lane has a team of `threads`, on `cores`.
absl::StatusOr<std::unique_ptr<Device>> StartDevice(int number, int threads, const std::vector<int>& cores,
                                                    const Resources& resources) {
  const bool flushes = resources.kernels != CpuOptions::Kernels::kReference;
  auto device = std::make_unique<Device>();
  for (int l = 0; l < program::kLaneCount; ++l) {
    Device::LaneState& lane = device->lanes[l];
    const bool computes = static_cast<program::Lane>(l) == program::Lane::kCompute;
    lane.threads = computes ? threads : 1;
    lane.queue = std::make_unique<Queue>([=] {
      KeepToCores(cores);
      if (computes) NameComputeThread(number);
      if (flushes) FlushDenormals();
    });
    lane.stream = dnnl::stream(resources.engine);
    absl::Status opened;
    lane.queue->Call([&] { opened = OpenTeam(lane.threads); });
    RETURN_IF_ERROR(opened);
  }
  return device;
}

}  // namespace

std::optional<CpuOptions::Kernels> KernelsFromName(absl::string_view name) {
  if (name == "onednn") return CpuOptions::Kernels::kOneDnn;
  if (name == "winograd") return CpuOptions::Kernels::kWinograd;
  if (name == "reference") return CpuOptions::Kernels::kReference;
  return std::nullopt;
}

int DefaultThreadsPerDevice(int devices) { return std::max(1, std::min(UsableCores() / devices, MostTeamThreads())); }

absl::StatusOr<std::unique_ptr<engine::Backend>> MakeCpuBackend(const CpuOptions& options) {
  if (options.devices < 1 || options.threads_per_device < 0 || options.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a CPU backend of ", base::Counted(options.devices, "device"), " with ",
                                                   base::Counted(options.threads_per_device, "thread"),
                                                   " each and a limit of ", options.memory_limit_bytes,
                                                   " bytes; these must be ≥ 1, ≥ 0, ≥ 0"));
  }
  if (options.devices > 1 && TeamsAreBound()) {
    return absl::FailedPreconditionError(
        "OpenMP would bind the threads of all devices to the same cores; unset OMP_PROC_BIND, OMP_PLACES and "
        "GOMP_CPU_AFFINITY: each device keeps its threads to cores of its own");
  }
  return CatchErrors([&]() -> absl::StatusOr<std::unique_ptr<engine::Backend>> {
    Resources resources;
    resources.kernels = options.kernels;
    if (options.kernels == CpuOptions::Kernels::kWinograd && !HasWinograd()) {
      return absl::FailedPreconditionError(
          "Winograd convolutions need a processor with AVX-512, or AVX2 and FMA; take the direct ones");
    }
    resources.books = engine::MemoryBooks(options.devices, options.memory_limit_bytes,
                                          [](int, int64_t bytes) { return AllocateArena(bytes); });
    const std::vector<int> cores = ByProcessorCore(CoresOfProcess());
    const int threads = ThreadsPerDevice(options);
    for (int d = 0; d < options.devices; ++d) {
      ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                       StartDevice(d, threads, CoresOfDevice(cores, d, options.devices), resources));
      resources.devices.push_back(std::move(device));
    }
    resources.reader = std::make_unique<Queue>([] { OpenTeam(1).IgnoreError(); });
    return {std::make_unique<CpuBackend>(std::move(resources))};
  });
}

}  // namespace colonnade::cpu
