#include "cuda/backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cuda/device.h"
#include "cuda/load/arena.h"
#include "cuda/load/loaded.h"

namespace colonnade::cuda {

namespace {

class CudaBackend : public engine::Backend {
 public:
  explicit CudaBackend(std::shared_ptr<Resources> resources) : resources_(std::move(resources)) {}

  std::string name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(resources_->devices.size()); }

  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&slots)[2]) override {
    ASSIGN_OR_RETURN(std::unique_ptr<CudaProgram> loaded, CudaProgram::Load(*resources_, program, slots));
    loaded->Hold(resources_);
    return {std::move(loaded)};
  }

  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program& program) override {
    return CudaProgram::MemoryOf(*resources_, program);
  }

  int64_t TakenBytes(int device) const override { return resources_->books.taken_bytes(device); }

 private:
  const std::shared_ptr<Resources> resources_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<engine::Backend>> MakeCudaBackend(const CudaOptions& options, std::shared_ptr<Calls> calls) {
  if (options.devices < 1 || options.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a CUDA backend of ", base::Counted(options.devices, "device"),
                                                   " with a limit of ", options.memory_limit_bytes,
                                                   " bytes; these must be ≥ 1 and ≥ 0"));
  }
  if (options.graphs == Graphs::kOn && options.times_tasks) {
    return absl::InvalidArgumentError("steps as CUDA graphs: their tasks cannot be timed one by one");
  }
  if (options.collectives == Collectives::kNccl) {
    if (const absl::Status has = calls->HasNccl(); !has.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("collectives by NCCL: ", has.message(), "; choose copies between peers"));
    }
    if (options.devices > calls->gpu_count()) {
      return absl::FailedPreconditionError(
          absl::StrCat("collectives by NCCL: expected a GPU for each device, found ", options.devices, " devices on ",
                       base::Counted(calls->gpu_count(), "GPU"), "; choose copies between peers"));
    }
  }
  for (int gpu = 1; gpu < std::min(options.devices, calls->gpu_count()); ++gpu) {
    if (calls->GpuName(gpu) == calls->GpuName(0)) continue;
    // Results that are not reduced, but computed on each device, would drift apart: libraries promise equal bits only on
    // equal GPUs.
    return absl::FailedPreconditionError(
        absl::StrFormat("GPUs: expected the same model for all devices, found %s and %s; hide one by CUDA_VISIBLE_DEVICES",
                        calls->GpuName(0), calls->GpuName(gpu)));
  }
  const auto made = std::make_shared<Resources>();
  Resources& resources = *made;
  if (options.collectives != Collectives::kPeer) {
    const absl::Status has = calls->HasNccl();
    resources.uses_nccl = has.ok();
    resources.lack_of_nccl = std::string(has.message());
  }
  resources.calls = std::move(calls);
  resources.precision = options.precision;
  resources.deterministic = options.deterministic;
  resources.times_tasks = options.times_tasks;
  resources.graphs = options.graphs;
  for (int d = 0; d < options.devices; ++d) {
    Device& device = resources.devices.emplace_back();
    device.gpu = d % resources.calls->gpu_count();
    for (int lane = 0; lane < program::kLaneCount; ++lane) {
      const auto of = static_cast<program::Lane>(lane);
      const bool goes_first = of == program::Lane::kComm || of == program::Lane::kCopy;  // for which compute may wait
      ASSIGN_OR_RETURN(device.streams[lane], resources.calls->MakeStream(device.gpu, goes_first));
    }
    for (Event& event : device.passed) {
      ASSIGN_OR_RETURN(event, resources.calls->MakeEvent(device.gpu, /*timed=*/false));
    }
  }
  const auto allocate = [calls = resources.calls.get()](int device, int64_t bytes) {
    return AllocateArena(*calls, device % calls->gpu_count(), bytes);
  };
  resources.books = engine::MemoryBooks(options.devices, options.memory_limit_bytes, allocate);
  return {std::make_unique<CudaBackend>(made)};
}

}  // namespace colonnade::cuda
