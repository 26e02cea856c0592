#include "engine/simulator.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/device_group_classes.h"
#include "engine/execution.h"
#include "engine/jobs.h"
#include "engine/routes.h"
#include "program/memory.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using program::Program;
using program::Task;

// Splits the time of one device from `begin` to `end`, whatever steps its tasks belong to, into compute, exposed
// communication, input wait and idle.
Breakdown BetweenSteps(const std::vector<const Task*>& tasks, const std::vector<std::vector<TaskTime>>& steps,
                       absl::Duration begin, absl::Duration end) {
  Trace window;
  for (const std::vector<TaskTime>& times : steps) {
    for (const Task* task : tasks) {
      const TaskTime& time = times[task->id.value];
      TraceEvent event{
          .pass = task->from.pass, .lane = task->lane, .start = std::max(time.start, begin), .end = std::min(time.end, end)};
      if (!std::holds_alternative<program::Compute>(task->what)) event.meeting = 0;
      if (event.start < event.end) window.events.push_back(std::move(event));
    }
  }
  const std::vector<Breakdown> of_window = BreakDown(window, 1);
  Breakdown breakdown = of_window.empty() ? Breakdown() : of_window[0];
  breakdown.idle = end - begin - breakdown.compute - breakdown.exposed_communication - breakdown.input_wait;
  return breakdown;
}

// Returns the peak of each device, all buffers densely packed.
std::vector<int64_t> PeakMemoryOf(const Program& program) {
  const program::MemoryMap map =
      program::PlaceBuffers(program, [&](const program::Buffer& buffer) { return program::DenseSizeOf(program, buffer); });
  std::vector<int64_t> bytes;
  for (int d = 0; d < program.device_count; ++d) bytes.push_back(map.step_bytes[d] + map.persistent_bytes[d]);
  return bytes;
}

}  // namespace

absl::StatusOr<Simulator> Simulator::Create(const Machine& machine, int devices) {
  if (devices > machine.device_count()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the Program uses %d devices, machine %s has %d", devices, machine.Title(), machine.device_count()));
  }
  ASSIGN_OR_RETURN(Routes routes, Routes::Create(machine, devices));
  return Simulator(machine, std::move(routes));
}

std::function<int(const std::vector<int>& devices)> Simulator::GroupClassifier() const {
  return [classes = std::make_shared<DeviceGroupClasses>(machine_, routes_)](const std::vector<int>& devices) {
    return classes->ClassOf(devices);
  };
}

absl::StatusOr<Simulation> Simulator::RunJobs(const Program& program, Jobs jobs, const SimulatorOptions& options) const {
  Execution run(program, machine_, std::move(jobs), routes_.engine_count(), options);
  if (!run.Run()) return absl::InternalError("the simulated Program is deadlocked: no task can start");
  const std::vector<double>& finish = run.finish();
  const size_t n = finish.size();
  Simulation simulation;
  simulation.tasks = run.tasks_run();
  simulation.first_step = absl::Seconds(finish[0]);
  // Steps may alternate, so the period is the mean of the later half.
  const size_t from = std::min(n - 2, n / 2);
  const bool steady = n < static_cast<size_t>(options.max_steps);
  simulation.step = absl::Seconds(steady ? finish[n - 1] - finish[n - 2]
                                         : (finish[n - 1] - finish[from]) / static_cast<double>(n - 1 - from));
  std::vector<int64_t> memory(program.device_count);
  if (options.memory) memory = PeakMemoryOf(program);
  std::vector<int64_t> sent(program.device_count);
  std::vector<std::vector<const Task*>> tasks_of(program.device_count);
  for (const Task& task : program.tasks) {
    sent[task.device] += task.work.bytes_sent;
    tasks_of[task.device].push_back(&task);
  }
  const absl::Duration begin = absl::Seconds(finish[n - 2]), end = absl::Seconds(finish[n - 1]);
  for (int d = 0; d < program.device_count; ++d) {
    const Breakdown times = options.trace ? BetweenSteps(tasks_of[d], run.times(), begin, end) : Breakdown();
    simulation.devices.push_back({times, sent[d], memory[d]});
  }
  if (options.trace) simulation.last_steps = MakeTrace(program, absl::MakeSpan(run.times()).subspan(n - 2, 2));
  return simulation;
}

absl::StatusOr<Simulation> Simulator::Run(const Program& program, const SimulatorOptions& options) const {
  return RunJobs(program, MakeJobs(program, machine_, routes_), options);
}

absl::StatusOr<Simulation> Simulator::Run(const program::RepresentativeProgram& representatives,
                                          const SimulatorOptions& options) const {
  ASSIGN_OR_RETURN(Simulation simulation,
                   RunJobs(representatives.program, MakeJobs(representatives, machine_, routes_), options));
  for (const std::vector<int>& alike : representatives.stands_for) {
    for (int device : alike) simulation.devices[device] = simulation.devices[alike[0]];
  }
  return simulation;
}

absl::StatusOr<Simulation> Simulate(const Program& program, const Machine& machine, const SimulatorOptions& options) {
  ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Create(machine, program.device_count));
  return simulator.Run(program, options);
}

absl::StatusOr<Simulation> Simulate(const program::RepresentativeProgram& representatives, const Machine& machine,
                                    const SimulatorOptions& options) {
  ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Create(machine, representatives.program.device_count));
  return simulator.Run(representatives, options);
}

}  // namespace colonnade::engine
