#include "tools/calibration.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "cpu/threads/cores.h"
#include "engine/precision.h"
#include "partition/named_plans.h"
#include "program/formulas/rounding.h"
#include "tools/host_memory.h"
#include "tools/measured_profile.h"
#include "tools/observations.h"

namespace colonnade::tools {
namespace {

using engine::Machine;
using engine::Origin;

constexpr int kSweepRepeats = 9;
constexpr int64_t kSweepBytes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};

// Devices that are alike, each linked to the node `between`; rates are measured.
Machine Skeleton(int devices, const std::string& kind, const std::string& between) {
  Machine machine;
  machine.name = "local";
  for (int d = 0; d < devices; ++d) {
    machine.devices.push_back(absl::StrCat(kind, d));
    machine.links.push_back({.a = machine.devices.back(), .b = between, .bytes_per_sec = {}, .latency_sec = {}});
  }
  machine.collectives = engine::CollectiveAlgorithm::kDirect;
  return machine;
}

// Whether a profile states the times of such a transfer.
bool IsProfiled(const std::string& transfer) {
  const std::vector<std::string>& names = engine::ProfiledTransferNames();
  return std::find(names.begin(), names.end(), transfer) != names.end();
}

}  // namespace

CalibrationTarget CpuTarget(int devices, const KernelChoice& choice) {
  Machine machine = Skeleton(devices, "cpu", "memory");
  machine.kernels = choice.kernels;
  machine.precision = choice.precision;
  machine.description = absl::StrFormat("this machine, as %d CPU devices on %d cores; %s kernels in %s", devices,
                                        cpu::UsableCores(), choice.kernels, choice.precision);
  machine.cores = {static_cast<double>(cpu::UsableCores()), Origin::kMeasured, "cores that the process may use"};
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  machine.memory_bytes = {pages * page / devices, Origin::kMeasured, "memory of the machine, in equal parts"};
  return {.devices = devices,
          .dtype = engine::DTypeOf(choice.precision),
          .make_backend = [kernels = *cpu::KernelsFromName(choice.kernels)](
                              int of) { return cpu::MakeCpuBackend({.devices = of, .kernels = kernels}); },
          .make_mover = CpuDevices,
          .machine = std::move(machine)};
}

CalibrationTarget GpuTarget(const Gpus& gpus, int devices, const std::string& precision) {
  if (devices == 0) devices = gpus.count;
  Machine machine = Skeleton(devices, "gpu", "peers");
  machine.precision = precision;
  machine.description = absl::StrFormat("this machine, as %d devices on %d of %s; %s, tasks launched one by one", devices,
                                        gpus.count, gpus.name, precision);
  const int sharing = static_cast<int>(program::CeilDiv(devices, gpus.count));  // of the devices of one GPU
  machine.memory_bytes = {static_cast<double>(gpus.memory_bytes / sharing), Origin::kMeasured,
                          sharing == 1 ? "memory of the GPU" : "memory of the GPU, in equal parts"};
  return {.devices = devices, .machine = std::move(machine)};
}

Calibration::Calibration(CalibrationTarget target) : target_(std::move(target)), seen_(std::make_unique<Observations>()) {}
Calibration::~Calibration() = default;

std::vector<CalibrationPlan> CalibrationPlans(int devices) {
  std::vector<CalibrationPlan> plans = {{"single"}};
  for (int d = 2; d <= devices; ++d) {
    for (const char* name : {"data", "model", "owt"}) plans.push_back({name, d});
  }
  if (devices > 1) plans.push_back({"model", devices, /*overlap=*/true});
  return plans;
}

std::vector<int64_t> CalibrationBatches(int64_t batch, int most_devices, int devices) {
  const int64_t unit = 4 * most_devices, unit_of_plan = 4 * devices;
  const auto at_least = [&](int64_t wanted, int64_t units) {
    return program::CeilDiv(std::max(wanted / unit, units) * unit, unit_of_plan) * unit_of_plan;
  };
  return {at_least(batch * 3 / 4, 1), at_least(batch * 3 / 2, 2)};
}

absl::Status Calibration::Load(const layers::LayerGraph& graph, const CalibrationPlan& named,
                               const std::vector<int64_t>& batches) {
  TakeObservations();
  overlap_ = named.overlap;
  ASSIGN_OR_RETURN(backend_, target_.make_backend(named.devices));
  std::vector<std::pair<partition::Plan, partition::LowerOptions>> runs;
  for (int64_t batch : batches) {
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(named.name, graph, {.devices = named.devices, .global_batch = batch});
    if (!plan.ok()) continue;
    plan->overlap = named.overlap;
    runs.emplace_back(*std::move(plan), partition::LowerOptions{.global_batch = batch, .dtype = target_.dtype});
  }
  // The devices share what the largest takes.
  if (backend_->name() == "cpu" && !runs.empty()) {
    RETURN_IF_ERROR(CheckHostMemory(graph, runs.back().first, runs.back().second));
  }
  for (const auto& [plan, lower] : runs) {
    ASSIGN_OR_RETURN(std::unique_ptr<StepMeter> meter, StepMeter::Create(graph, plan, lower, backend_));
    loaded_.push_back(std::move(meter));
  }
  return absl::OkStatus();
}

absl::Status Calibration::Run(int index, int steps, absl::Duration time) { return loaded_[index]->Run(steps, time); }

void Calibration::TakeObservations() {
  for (const std::unique_ptr<StepMeter>& meter : loaded_) {
    const Observations::Run run{meter->program(), meter->times(), meter->step_seconds(), meter->host_seconds()};
    overlap_ ? seen_->AddOverlapped(run) : seen_->AddRun(run);
  }
  loaded_.clear();
}

void Calibration::AddTransfers(const std::vector<TransferTime>& transfers) {
  for (const TransferTime& transfer : transfers) {
    if (IsProfiled(transfer.operation)) seen_->AddTransfer(transfer);
  }
}

absl::Status Calibration::SweepTransfers() {
  for (const std::string& what : MeasurableTransferNames()) {
    for (int members = 2; members <= target_.devices; ++members) {
      if (!IsProfiled(what) || (members > 2 && what == "exchange")) continue;
      for (int64_t bytes : kSweepBytes) {
        ASSIGN_OR_RETURN(TransferTime time, MeasureTransfer(what, members, bytes, kSweepRepeats, target_.make_mover));
        seen_->AddTransfer(time);
      }
    }
  }
  return absl::OkStatus();
}

engine::Machine Calibration::Result() {
  TakeObservations();
  return MeasuredProfile(target_.machine, *seen_, input_);
}

}  // namespace colonnade::tools
