#include "tools/planning.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cpu/about.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/routes.h"
#include "tools/calibration.h"
#include "tools/machines.h"

namespace colonnade::tools {
namespace {

constexpr double kSimulatorError = 0.02;  // of step times, the median over docs/measured.md's cases

using Kernels = cpu::CpuOptions::Kernels;

Kernels KernelsOf(const engine::Machine& machine) {
  return cpu::KernelsFromName(machine.kernels).value_or(Kernels::kOneDnn);
}

// This processor may have no Winograd kernels.
Kernels KernelsHere(Kernels asked) { return asked == Kernels::kWinograd && !cpu::HasWinograd() ? Kernels::kOneDnn : asked; }

int64_t Fullest(const engine::Simulation& simulation) {
  int64_t most = 0;
  for (const engine::SimulatedDevice& device : simulation.devices) most = std::max(most, device.peak_memory_bytes);
  return most;
}

// Sorts them. A named plan goes first where it is slower than the first by no more than the simulator errs.
void SortCandidates(std::vector<partition::Candidate>& found) {
  std::stable_sort(found.begin(), found.end(), partition::IsBefore);
  if (!found.front().fits) return;
  const auto named = std::find_if(found.begin(), found.end(),
                                  [](const partition::Candidate& c) { return c.plan.name != partition::kAutoPlan; });
  const double most = found.front().judgement.step_sec * (1 + kSimulatorError);
  if (named != found.end() && named->fits && named->judgement.step_sec <= most) std::rotate(found.begin(), named, named + 1);
}

// Returns the most memory that a device takes for `plan`. The search's judgement knows nothing of what layouts and
// workspaces add on the CPU, and of many micro-batches it judges a few.
absl::StatusOr<int64_t> PeakMemoryOf(const engine::Machine& machine, const engine::Simulator& simulator,
                                     const layers::LayerGraph& graph, const partition::Plan& plan,
                                     const partition::LowerOptions& lower) {
  if (machine.cores.value > 0) {
    ASSIGN_OR_RETURN(const Predicted predicted, Predict(machine, graph, plan, lower, std::nullopt));
    return Fullest(predicted.simulation);
  }
  ASSIGN_OR_RETURN(const program::RepresentativeProgram lowered,
                   partition::LowerRepresentatives(graph, plan, lower, simulator.GroupClassifier()));
  ASSIGN_OR_RETURN(const engine::Simulation simulation, simulator.Run(lowered, {.max_steps = 2, .trace = false}));
  return Fullest(simulation);
}

// What the input takes for a batch; 0 where the profile states no rate.
double InputSeconds(const engine::Machine& machine, int64_t global_batch) {
  const double rate = machine.input_images_per_sec.value;
  return rate > 0 ? static_cast<double>(global_batch) / rate : 0;
}

// The machine that plans are judged on: where a few micro-batches stand for many, without its input.
engine::Machine JudgingMachine(engine::Machine machine, int64_t micro_batches) {
  if (micro_batches > partition::kMostMicroBatchesJudged) machine.input_images_per_sec.value = 0;
  return machine;
}

// What tasks and collectives take alone on a machine with so many devices at work; collectives are worked out once.
class AloneCosts {
 public:
  // `machine` must outlive the result.
  static absl::StatusOr<AloneCosts> Create(const engine::Machine& machine, int devices) {
    ASSIGN_OR_RETURN(engine::Routes routes, engine::Routes::Create(machine, devices));
    return AloneCosts(machine, devices, std::move(routes));
  }

  // Valid as long as this object is.
  partition::CostFunctions functions() const {
    return {.compute = [this](const program::Task& task) { return cost_.Seconds(task); },
            .transfer =
                [this](program::CollectiveKind kind, int members, double bytes) {
                  const auto [known, is_new] = collectives_.try_emplace({kind, members, bytes}, 0);
                  if (is_new) known->second = cost_.CollectiveSeconds(routes_, kind, members, bytes);
                  return known->second;
                }};
  }

 private:
  AloneCosts(const engine::Machine& machine, int devices, engine::Routes routes)
      : cost_(machine, devices), routes_(std::move(routes)) {}

  engine::CostModel cost_;
  engine::Routes routes_;
  mutable std::map<std::tuple<program::CollectiveKind, int, double>, double> collectives_;
};

}  // namespace

absl::Status CheckDevices(const engine::Machine& machine, int devices) {
  if (devices < 1) {
    return absl::FailedPreconditionError(absl::StrFormat("devices: expected 1 to %d of machine %s, found %d",
                                                         machine.device_count(), machine.Title(), devices));
  }
  if (devices <= machine.device_count()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const data::EmbeddedFile& file : ShippedMachines()) {
    const absl::StatusOr<engine::Machine> shipped = engine::MachineFromJson(file.bytes);
    if (shipped.ok() && shipped->device_count() >= devices) names.push_back(shipped->name);
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "devices: machine %s has %d, found %d%s%s", machine.Title(), machine.device_count(), devices,
      machine.cores.value > 0 && devices <= kMostDevicesHere
          ? absl::StrFormat("; run `colonnade calibrate --devices=%d` to predict so many CPU devices of this machine",
                            devices)
          : "",
      names.empty() ? "" : absl::StrCat("; machines that have enough: ", absl::StrJoin(names, ", "))));
}

namespace {

std::string TimedWarning(const engine::Machine& machine, const std::string& network) {
  if (machine.timed.empty() || absl::c_linear_search(machine.timed, network)) return "";
  return absl::StrFormat(
      "its rates were measured at the shapes of %s alone; predictions for %s may be wrong by more than they say, and "
      "`colonnade calibrate` measures at other shapes",
      absl::StrJoin(machine.timed, ", "), network);
}

std::string FittedWarning(const engine::Machine& machine, const std::string& network) {
  const std::string& model = machine.fitted_to.model;
  if (model.empty()) return "";
  if (machine.step_sec.value == 0) {
    return absl::StrFormat(
        "how long its kernels take was fitted to %s; times predicted for %s are as wrong as its kernels are unlike those",
        model, network);
  }
  return absl::StrFormat(
      "its overhead of %.3g s a step was fitted to %s; times predicted for %s are wrong by as much as that",
      machine.step_sec.value, model, network);
}

}  // namespace

std::string FitWarning(const engine::Machine& machine, const layers::LayerGraph& graph) {
  if (machine.fitted_to.model == graph.name) return "";
  std::vector<std::string> warnings = {TimedWarning(machine, graph.name), FittedWarning(machine, graph.name)};
  warnings.erase(std::remove(warnings.begin(), warnings.end(), ""), warnings.end());
  return warnings.empty() ? "" : absl::StrCat("machine ", machine.Title(), ": ", absl::StrJoin(warnings, "; "));
}

namespace {

// Judges anew, with all that the search left out, whether the first fits, until one does or none is left.
absl::StatusOr<std::vector<partition::Candidate>> JudgeMemoryOfTheFirst(const engine::Machine& machine,
                                                                        const engine::Simulator& simulator,
                                                                        const layers::LayerGraph& graph,
                                                                        const partition::PlannerOptions& options,
                                                                        std::vector<partition::Candidate> found) {
  while (found.front().fits) {
    if (options.is_stopped()) return absl::CancelledError("the search for a plan was stopped");
    if (options.progress) options.progress(static_cast<int>(found.size()), 1);
    partition::Candidate& first = found.front();
    ASSIGN_OR_RETURN(const int64_t peak, PeakMemoryOf(machine, simulator, graph, first.plan, options.lower));
    if (peak <= options.memory_bytes) break;
    first.fits = false;
    first.judgement.peak_memory_bytes = peak;
    SortCandidates(found);
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<partition::Candidate>> SearchPlansOn(const engine::Machine& machine,
                                                                const layers::LayerGraph& graph,
                                                                const partition::LowerOptions& lower, int devices,
                                                                const SearchOptions& search) {
  RETURN_IF_ERROR(CheckDevices(machine, devices));
  std::map<int, AloneCosts> costs;  // by how many devices are at work
  const engine::Machine judging = JudgingMachine(machine, lower.micro_batches);
  ASSIGN_OR_RETURN(const engine::Simulator simulator, engine::Simulator::Create(judging, devices));
  partition::PlannerOptions options{
      .devices = devices,
      .lower = lower,
      .settings = search.settings,
      .cost = [&](int count) -> absl::StatusOr<partition::CostFunctions> {
        if (!costs.contains(count)) {
          ASSIGN_OR_RETURN(AloneCosts alone, AloneCosts::Create(machine, count));
          costs.emplace(count, std::move(alone));
        }
        return costs.at(count).functions();
      },
      .judge = [&](const program::RepresentativeProgram& lowered) -> absl::StatusOr<partition::Judgement> {
        ASSIGN_OR_RETURN(engine::Simulation simulation, simulator.Run(lowered, {.trace = false}));
        return partition::Judgement{
            absl::ToDoubleSeconds(simulation.step), Fullest(simulation),
            engine::CostModel(judging, lowered.program.device_count).LeastStepSeconds(lowered.program)};
      },
      .input_sec = InputSeconds(machine, lower.global_batch),
      .classify_group = simulator.GroupClassifier(),
      .memory_bytes = static_cast<int64_t>(machine.memory_bytes.value),
      .is_stopped = [&] { return search.stop != nullptr && *search.stop; },
      .progress = search.progress};
  ASSIGN_OR_RETURN(std::vector<partition::Candidate> found, partition::SearchPlans(graph, options));
  SortCandidates(found);
  // Whether it fits is not what the search judged where that leaves something out.
  const bool judges_all = machine.cores.value == 0 && lower.micro_batches <= partition::kMostMicroBatchesJudged;
  if (judges_all || options.memory_bytes == 0) return found;
  return JudgeMemoryOfTheFirst(machine, simulator, graph, options, std::move(found));
}

absl::StatusOr<double> LeastSecondsOn(const engine::Machine& machine, const layers::LayerGraph& graph,
                                      const partition::LowerOptions& lower, int devices,
                                      const partition::PlanSettings& settings) {
  RETURN_IF_ERROR(CheckDevices(machine, devices));
  RETURN_IF_ERROR(engine::CheckNumbers(machine));
  const int parts = settings.transfer_parts.value_or(std::end(partition::kTriedTransferParts)[-1]);
  double least = std::numeric_limits<double>::infinity();
  for (int count : partition::TriedDeviceCounts(devices)) {
    ASSIGN_OR_RETURN(const AloneCosts cost, AloneCosts::Create(machine, count));
    const double host = engine::HostSeconds(machine, count, static_cast<double>(lower.global_batch), /*tasks=*/0);
    const double devices_sec = partition::LowerBoundSeconds(graph, count, lower, cost.functions(), parts);
    least = std::min(least, machine.steps_in_flight == 1 ? host + devices_sec : std::max(host, devices_sec));
  }
  return std::max(least, InputSeconds(machine, lower.global_batch));
}

program::PixelScaling PixelsFromBytes(const layers::LayerGraph& graph) {
  const auto channels = static_cast<size_t>(graph.nodes[0].sample_shape[0]);
  return {std::vector<double>(channels, 1.0 / 255), std::vector<double>(channels, 0)};
}

absl::StatusOr<program::RepresentativeProgram> LowerRepresentativesOn(const engine::Machine& machine,
                                                                      const layers::LayerGraph& graph,
                                                                      const partition::Plan& plan,
                                                                      const partition::LowerOptions& lower) {
  const int devices = plan.mesh.device_count();
  if (devices > machine.device_count()) return partition::LowerRepresentatives(graph, plan, lower);
  ASSIGN_OR_RETURN(const engine::Simulator simulator, engine::Simulator::Create(machine, devices));
  return partition::LowerRepresentatives(graph, plan, lower, simulator.GroupClassifier());
}

absl::StatusOr<std::vector<int64_t>> BytesOnCpu(const engine::Machine& machine, const program::Program& program,
                                                std::optional<cpu::CpuOptions::Kernels> kernels) {
  ASSIGN_OR_RETURN(const std::vector<engine::DeviceMemory> memory,
                   PredictCpuMemory(program, KernelsHere(kernels.value_or(KernelsOf(machine)))));
  std::vector<int64_t> bytes;
  for (const engine::DeviceMemory& device : memory) bytes.push_back(device.total_bytes());
  return bytes;
}

absl::StatusOr<Predicted> Predict(const engine::Machine& machine, const layers::LayerGraph& graph,
                                  const partition::Plan& plan, const partition::LowerOptions& lower,
                                  std::optional<cpu::CpuOptions::Kernels> kernels) {
  RETURN_IF_ERROR(CheckDevices(machine, plan.mesh.device_count()));
  ASSIGN_OR_RETURN(program::Program program, partition::Lower(graph, plan, lower));
  ASSIGN_OR_RETURN(engine::Simulation simulation, engine::Simulate(program, machine));
  // For CPU devices the backend itself says what layouts and workspaces add.
  if (machine.cores.value > 0) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, BytesOnCpu(machine, program, kernels));
    for (size_t d = 0; d < bytes.size(); ++d) simulation.devices[d].peak_memory_bytes = bytes[d];
  }
  return Predicted{std::move(program), std::move(simulation)};
}

std::string StrategiesOf(const partition::Plan& plan, const std::string& layer) {
  const auto found = plan.layers.find(layer);
  if (found == plan.layers.end()) return "-";
  std::vector<std::string> names;
  for (int a = 0; a < plan.mesh.axis_count(); ++a) {
    if (plan.mesh.axes[a].size > 1) names.emplace_back(layers::Name(found->second[a]));
  }
  return names.empty() ? "-" : absl::StrJoin(names, ", ");
}

}  // namespace colonnade::tools
