#include "engine/simulator.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/simulator/device_group_classes.h"
#include "engine/simulator/event_loop.h"
#include "engine/simulator/jobs.h"
#include "engine/simulator/routes.h"
#include "program/memory.h"

namespace colonnade::engine {
namespace {

using program::Program;
using program::Task;

// Some steps behind each other, whose mean is what a step takes.
struct Period {
  absl::Duration begin, end;
  int64_t steps = 1;

  absl::Duration step() const { return (end - begin) / steps; }
};

// `finish` holds when each step ended. Steps may alternate between two lengths, so the mean is that of an even number, of
// the later half; once they are steady, the last says it.
Period PeriodOf(const std::vector<double>& finish, bool is_steady) {
  const size_t last = finish.size() - 1;
  const size_t steps = is_steady || last < 3 ? 1 : (last + 1) / 4 * 2;
  return {absl::Seconds(finish[last - steps]), absl::Seconds(finish[last]), static_cast<int64_t>(steps)};
}

// Splits what a step of the period takes on one device, whatever steps its tasks belong to, into compute, exposed
// communication, input wait and idle.
Breakdown InPeriod(const Period& period, const std::vector<const Task*>& tasks,
                   const std::vector<std::vector<TaskTime>>& steps) {
  Trace window;
  for (const std::vector<TaskTime>& times : steps) {
    for (const Task* task : tasks) {
      const TaskTime& time = times[task->id.value];
      TraceEvent event{.pass = task->provenance.pass,
                       .lane = task->lane,
                       .start = std::max(time.start, period.begin),
                       .end = std::min(time.end, period.end)};
      if (!std::holds_alternative<program::Compute>(task->body)) event.meeting = 0;
      if (event.start < event.end) window.events.push_back(std::move(event));
    }
  }
  const std::vector<Breakdown> of_window = BreakDown(window, 1);
  const Breakdown all = of_window.empty() ? Breakdown() : of_window[0];
  Breakdown step{.compute = all.compute / period.steps,
                 .exposed_communication = all.exposed_communication / period.steps,
                 .input_wait = all.input_wait / period.steps};
  step.idle = period.step() - step.compute - step.exposed_communication - step.input_wait;
  return step;
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
  if (devices < 1) {
    return absl::FailedPreconditionError(absl::StrFormat("devices: expected 1 to %d of machine %s, found %d",
                                                         machine.device_count(), machine.Title(), devices));
  }
  if (devices > machine.device_count()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the Program uses %d devices, machine %s has %d", devices, machine.Title(), machine.device_count()));
  }
  RETURN_IF_ERROR(CheckNumbers(machine));
  ASSIGN_OR_RETURN(Routes routes, Routes::Create(machine, devices));
  return Simulator(machine, std::move(routes));
}

std::function<int(const std::vector<int>& devices)> Simulator::GroupClassifier() const {
  return [classes = std::make_shared<DeviceGroupClasses>(machine_, routes_)](const std::vector<int>& devices) {
    return classes->ClassOf(devices);
  };
}

absl::StatusOr<Simulation> Simulator::RunJobs(const Program& program, Jobs jobs, const SimulatorOptions& options) const {
  EventLoop loop(program, machine_, std::move(jobs), routes_.engine_count(), options);
  if (!loop.Run()) return absl::InternalError("the simulated Program is deadlocked: no task can start");
  const std::vector<double>& finish = loop.step_ends();
  const size_t n = finish.size();
  Simulation simulation;
  simulation.tasks = loop.tasks_run();
  simulation.first_step = absl::Seconds(finish[0]);
  const Period period = PeriodOf(finish, loop.IsSteady());
  simulation.step = period.step();
  std::vector<int64_t> memory(program.device_count);
  if (options.memory) memory = PeakMemoryOf(program);
  std::vector<int64_t> sent(program.device_count);
  std::vector<std::vector<const Task*>> tasks_of(program.device_count);
  for (const Task& task : program.tasks) {
    sent[task.device] += task.work.bytes_sent;
    tasks_of[task.device].push_back(&task);
  }
  for (int d = 0; d < program.device_count; ++d) {
    const Breakdown times = options.trace ? InPeriod(period, tasks_of[d], loop.times()) : Breakdown();
    simulation.devices.push_back({times, sent[d], memory[d]});
  }
  if (options.trace) simulation.last_steps = MakeTrace(program, absl::MakeSpan(loop.times()).subspan(n - 2, 2));
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
