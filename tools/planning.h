// Programs and plans on a machine profile: what `plan`, `simulate`, `table` and `--plan=auto` share.
#ifndef COLONNADE_TOOLS_PLANNING_H_
#define COLONNADE_TOOLS_PLANNING_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cpu/backend.h"
#include "engine/machine.h"
#include "engine/simulator.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/planner.h"
#include "program/representative_program.h"

namespace colonnade::tools {

// Called with the number of plans judged and the part of the search that is spent.
using SearchProgress = std::function<void(int judgements, double part)>;

struct SearchOptions {
  partition::PlanSettings settings{};  // what every plan gets, instead of being searched
  SearchProgress progress = nullptr;
  const std::atomic<bool>* stop = nullptr;  // once it is set from elsewhere, the search ends with Cancelled
};

// Runs the planner with the simulator of `machine` as its judge. The first plan is the choice: a named plan unless the
// planner's is faster by more than the simulator's error. It fits by all that it takes. The memory of candidates is what the
// search judged, without what layouts and workspaces add on the CPU, and of many micro-batches about what it is; of those
// that do not fit by all that they take, it is that. Errors as CheckDevices, too.
absl::StatusOr<std::vector<partition::Candidate>> SearchPlansOn(const engine::Machine& machine,
                                                                const layers::LayerGraph& graph,
                                                                const partition::LowerOptions& lower, int devices,
                                                                const SearchOptions& search = {});

// Returns the seconds of a step that no plan with those settings goes below on `devices` of the machine, or on fewer that
// the planner tries (partition/planner.h). Errors as CheckDevices, too.
absl::StatusOr<double> LeastSecondsOn(const engine::Machine& machine, const layers::LayerGraph& graph,
                                      const partition::LowerOptions& lower, int devices,
                                      const partition::PlanSettings& settings = {});

// Returns FailedPrecondition where `devices` is below 1, or the machine has fewer, naming shipped profiles that have enough.
absl::Status CheckDevices(const engine::Machine& machine, int devices);

// Returns what is wrong with predictions of `graph` on a profile that was fitted to another network, or measured
// at the shapes of others alone; empty if it was not.
std::string FitWarning(const engine::Machine& machine, const layers::LayerGraph& graph);

// Returns the scaling of bytes to values from 0 to 1, for steps whose data are not there to say their mean and deviation.
program::PixelScaling PixelsFromBytes(const layers::LayerGraph& graph);

// Returns the devices that stand for all others in a simulation on `machine`. If the machine has too few devices, its links
// are ignored: devices are told apart only by what holds on every machine.
absl::StatusOr<program::RepresentativeProgram> LowerRepresentativesOn(const engine::Machine& machine,
                                                                      const layers::LayerGraph& graph,
                                                                      const partition::Plan& plan,
                                                                      const partition::LowerOptions& lower);

// Returns the bytes that each device takes in the CPU backend, layouts and workspaces included, with `kernels`, by default
// those whose rates the profile states; with oneDNN's where this processor has none of Winograd's.
absl::StatusOr<std::vector<int64_t>> BytesOnCpu(const engine::Machine& machine, const program::Program& program,
                                                std::optional<cpu::CpuOptions::Kernels> kernels);

struct Predicted {
  program::Program program;
  engine::Simulation simulation;
};
// Simulates a training step. The peak memory of CPU devices is BytesOnCpu. Errors as CheckDevices, of the plan's devices.
absl::StatusOr<Predicted> Predict(const engine::Machine& machine, const layers::LayerGraph& graph,
                                  const partition::Plan& plan, const partition::LowerOptions& lower,
                                  std::optional<cpu::CpuOptions::Kernels> kernels = std::nullopt);

// "batch, column": the strategies of a layer on the axes that have more than one position; "-" if there is none.
std::string StrategiesOf(const partition::Plan& plan, const std::string& layer);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_PLANNING_H_
