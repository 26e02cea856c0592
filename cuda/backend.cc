#include "cuda/backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/device.h"
#include "cuda/loaded.h"

namespace colonnade::cuda {

namespace {

class CudaBackend : public engine::Backend {
 public:
  explicit CudaBackend(Machine machine) : machine_(std::move(machine)) {}
  ~CudaBackend() override {
    for (Device& device : machine_.devices) {
      device.persistent.clear();
      for (const Stream& stream : device.AllStreams()) machine_.calls->Destroy(stream);
    }
  }

  std::string name() const override { return "cuda"; }
  int device_count() const override { return static_cast<int>(machine_.devices.size()); }

  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> Load(const program::Program& program,
                                                              const engine::HostSlot (&slots)[2]) override {
    absl::StatusOr<std::unique_ptr<CudaProgram>> loaded = CudaProgram::Load(machine_, program, slots);
    if (!loaded.ok()) return loaded.status();
    return {*std::move(loaded)};
  }

  absl::StatusOr<std::vector<engine::DeviceMemory>> MemoryOf(const program::Program& program) override {
    return CudaProgram::MemoryOf(machine_, program);
  }

 private:
  Machine machine_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<engine::Backend>> MakeCudaBackend(const CudaOptions& options, std::unique_ptr<Calls> calls) {
  if (options.devices < 1 || options.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a CUDA backend of ", options.devices, " devices with a limit of ",
                                                   options.memory_limit_bytes, " bytes; these must be ≥ 1 and ≥ 0"));
  }
  if (options.collectives == Collectives::kNccl) {
    if (!calls->has_nccl())
      return absl::FailedPreconditionError(
          "collectives by NCCL: it was not found when this was built; choose copies between peers");
    if (options.devices > calls->gpu_count()) {
      return absl::FailedPreconditionError(
          absl::StrCat("collectives by NCCL: expected a GPU for each device, found ", options.devices, " devices on ",
                       calls->gpu_count(), calls->gpu_count() == 1 ? " GPU" : " GPUs", "; choose copies between peers"));
    }
  }
  Machine machine;
  machine.uses_nccl = calls->has_nccl() && options.collectives != Collectives::kPeer;
  machine.calls = std::move(calls);
  machine.precision = options.precision;
  machine.deterministic = options.deterministic;
  machine.times_tasks = options.times_tasks;
  machine.uses_graphs = options.graphs;
  machine.memory_limit_bytes = options.memory_limit_bytes;
  for (int d = 0; d < options.devices; ++d) {
    Device device;
    device.gpu = d % machine.calls->gpu_count();
    for (Stream* stream : {&device.streams[0], &device.streams[1], &device.streams[2], &device.input}) {
      absl::StatusOr<Stream> made = machine.calls->MakeStream(device.gpu);
      if (!made.ok()) return made.status();
      *stream = *made;
    }
    machine.devices.push_back(std::move(device));
  }
  return {std::make_unique<CudaBackend>(std::move(machine))};
}

}  // namespace colonnade::cuda
