// Runs a Program on a machine profile instead of on a machine: discrete events over its tasks, lanes and links.
//
// Lanes run in order and wait as the executor's do; a transfer starts when all its sides are there, and ends for all at
// once. Flows that share a link share its rate fairly (max-min). Where devices are threads on a few cores, all that runs
// shares those cores. Compute takes longer while its device takes part in a transfer (Machine::overlap_slowdown). Where the
// input has a rate, it makes one batch after the other, and the loads of a step begin when its batch is there. The host
// enqueues a step when it has ended its work for the step before and the step `steps_in_flight` earlier has ended.
//
// From a Program to seconds:
//   task(s) → Job: starts and ends as one, be it a computation, a transfer or the host's work        jobs.h
//   transfer → CollectiveSchedule: the algorithm and the form that are fastest for its bytes        cost_model.h
//            → phases: flows between devices, by the published algorithms                           transfer_phases.h
//            → legs: the same flows on routes, joined where they have one rate                      leg_maker.h
//   flows share links by max-min fairness                                          fair_share.h, running_flows.h
//
// Results are exact where they can be computed by hand, and equal in every run. A run uses only the thread that calls it.
// Steps count as steady once the last two took equally long and as many batches and steps are ahead as a step before; lanes
// that drift against each other may yet bring another time after more such steps.
#ifndef COLONNADE_ENGINE_SIMULATOR_H_
#define COLONNADE_ENGINE_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/machine.h"
#include "engine/simulator/routes.h"
#include "engine/trace.h"
#include "program/program.h"
#include "program/representative_program.h"

namespace colonnade::engine {

struct Jobs;

struct SimulatorOptions {
  // 0: 12, or 64 where there is an input or more than two steps are in flight; ends earlier once the time from step to step
  // is steady.
  int max_steps = 0;
  bool trace = true;
  bool memory = true;  // false: peak_memory_bytes stay 0
};

// A device, and where its time goes in one steady step: the four parts add up to its length.
struct SimulatedDevice : Breakdown {
  int64_t sent_bytes = 0;
  int64_t peak_memory_bytes = 0;  // all buffers, densely packed; tools::Predict puts what the CPU backend would take
                                  // here, layouts and workspaces included, where the profile is of CPU devices
};

struct Simulation {
  absl::Duration step;        // from the end of one step to the end of the next, once steady
  absl::Duration first_step;  // from the start to the end of the first
  std::vector<SimulatedDevice> devices;
  Trace last_steps;   // as a measured run's
  int64_t tasks = 0;  // how many were run, in all steps
};

// Simulates Programs on one machine. It keeps the machine's routes, so that one Simulator serves many Programs. Threads may
// share it.
class Simulator {
 public:
  // Makes a simulator for Programs of at most `devices`, the machine's first ones. `machine` must outlive the result.
  // FailedPrecondition where it has fewer devices, or `devices` is below 1. InvalidArgument as CheckNumbers.
  static absl::StatusOr<Simulator> Create(const Machine& machine, int devices);
  static absl::StatusOr<Simulator> Create(Machine&&, int) = delete;  // it would be gone

  // Simulates `program`. REQUIRES: program::Verify(program) is OK; it has no more devices than the simulator.
  absl::StatusOr<Simulation> Run(const program::Program& program, const SimulatorOptions& options = {}) const;
  // Returns DeviceGroupClasses::ClassOf, which tells devices apart that may not stand for each other. It is valid as long as
  // the simulator is; for one thread.
  std::function<int(const std::vector<int>& devices)> GroupClassifier() const;
  // Simulates all devices by their representatives. The result differs from that of the whole Program: the trace has only
  // the representatives, and peak_memory_bytes are theirs; where GroupClassifier has not told them apart, devices that do
  // alike wait for the slowest of meetings that are alike; where devices share cores, those that do alike do
  // it at the same time (within 3 % of the step). REQUIRES: they are partition::LowerRepresentatives' of at most as many
  // devices as the simulator's.
  absl::StatusOr<Simulation> Run(const program::RepresentativeProgram& representatives,
                                 const SimulatorOptions& options = {}) const;

 private:
  Simulator(const Machine& machine, Routes routes) : machine_(machine), routes_(std::move(routes)) {}
  absl::StatusOr<Simulation> RunJobs(const program::Program& program, Jobs jobs, const SimulatorOptions& options) const;

  const Machine& machine_;
  Routes routes_;
};

// Simulate one Program, whole or by the devices that stand for all. Errors as Simulator::Create; FailedPrecondition where
// the Program has no devices. REQUIRES: as Simulator::Run.
absl::StatusOr<Simulation> Simulate(const program::Program& program, const Machine& machine,
                                    const SimulatorOptions& options = {});
absl::StatusOr<Simulation> Simulate(const program::RepresentativeProgram& representatives, const Machine& machine,
                                    const SimulatorOptions& options = {});

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_H_
