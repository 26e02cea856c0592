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
#include "program/op_traits.h"
#include "tools/host_memory.h"
#include "tools/observations.h"

namespace colonnade::tools {
namespace {

using engine::Machine;
using engine::OpRate;
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

// Rates of the roofline for ops that no case has: the best that was seen.
void FillRoofline(Machine& machine) {
  double flops = 1e9, bytes = 1e9;
  for (const OpRate& op : machine.ops) {
    for (const OpRate::Point& point : op.points) {
      double& best = op.unit == OpRate::Unit::kFlops ? flops : bytes;
      if (op.unit == OpRate::Unit::kFlops || program::CostClassOf(op.op) == program::CostClass::kUpdate)
        best = std::max(best, point.rate);
    }
  }
  machine.flops_per_sec = {flops, Origin::kMeasured, "the fastest kernel seen"};
  machine.memory_bytes_per_sec = {bytes, Origin::kMeasured, "the fastest update seen"};
  double link = 1e9;
  for (const engine::MeasuredTransfer& t : machine.transfers) {
    for (const auto& [size, seconds] : t.points) link = t.operation == "exchange" ? std::max(link, size / seconds) : link;
  }
  for (engine::Link& l : machine.links) l.bytes_per_sec = {link, Origin::kMeasured, "the fastest exchange seen"};
}

// The factor within which a fitted term is right 19 times of 20: two standard errors. 0 where these are not known.
double FactorOfErrors(double seconds, double standard_error) {
  return standard_error > 0 ? 1 + 2 * standard_error / seconds : 0;
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

void Calibration::SetHostTerms(Machine& machine) const {
  const auto [host, errors] = seen_->host();
  const auto set = [](engine::Quantity& quantity, double seconds, double standard_error, const std::string& source) {
    if (seconds > 0) quantity = {seconds, Origin::kMeasured, source, FactorOfErrors(seconds, standard_error)};
  };
  const std::string fit = "fit to the times in which the host enqueued the steps of all Programs";
  set(machine.step_sec, host.step_sec, errors.step_sec, fit);
  set(machine.step_sec_per_task, host.sec_per_task, errors.sec_per_task, fit);
  set(machine.step_sec_per_device, host.sec_per_device, errors.sec_per_device, fit);
  set(machine.step_sec_per_image, host.sec_per_image, errors.sec_per_image, fit);
  if (!input_.has_value()) return;
  machine.input_images_per_sec = {input_->images_per_sec, Origin::kMeasured, input_->source, input_->within};
  set(machine.step_sec_per_image, host.sec_per_image + input_->host_sec_per_image, errors.sec_per_image,
      absl::StrCat(host.sec_per_image > 0 ? absl::StrCat(fit, ", and ") : "",
                   "copying an image into a step: ", input_->source));
}

void Calibration::SetSlower(Machine& machine) const {
  const std::vector<double> slowness = seen_->Slowness();
  for (size_t d = 0; d < slowness.size(); ++d) {
    if (slowness[d] == 1) continue;
    machine.slower.push_back(
        {machine.devices[d], slowness[d], Origin::kMeasured, "time of its kernels over the fastest device's"});
  }
}

engine::Machine Calibration::Result() {
  TakeObservations();
  Machine machine = target_.machine;
  machine.ops = seen_->Rates();
  machine.transfers = seen_->Transfers();
  machine.launch_sec = {seen_->launch_sec(), Origin::kMeasured, "median gap between two tasks", seen_->launch_within()};
  machine.handoff_sec = {seen_->handoff_sec(), Origin::kMeasured, "mean gap after a task of another lane, beyond that",
                         seen_->handoff_within()};
  machine.skew = {seen_->skew(), Origin::kMeasured, "mean wait for the slower of two that meet, over the way to the meeting",
                  seen_->skew_within()};
  // Where devices share cores, that is what slows compute beside transfers.
  if (const std::optional<double> slowdown = seen_->overlap_slowdown(); slowdown.has_value() && machine.cores.value == 0) {
    machine.overlap_slowdown = {*slowdown, Origin::kMeasured, "compute beside transfers over the same alone"};
  }
  SetHostTerms(machine);
  SetSlower(machine);
  FillRoofline(machine);
  engine::LimitRates(machine);
  return machine;
}

}  // namespace colonnade::tools
