#include "engine/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/cost_model.h"
#include "engine/fair_share.h"
#include "engine/routes.h"
#include "engine/transfer_phases.h"
#include "program/meetings.h"
#include "program/memory.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using program::kLaneCount;
using program::Meeting;
using program::Program;
using program::Task;
using program::TaskId;

constexpr double kNever = std::numeric_limits<double>::infinity();

// One way that bytes take at once: a flow of a phase, on one leg.
struct FlowOnRoute {
  Route route;
  double bytes;
};
struct Leg {
  double fixed_sec = 0;  // latency, and sums that hide behind nothing; before the flows
  std::vector<FlowOnRoute> flows;
};

// What a group of tasks that start and end together takes: seconds of its own, then legs one after the other.
struct Job {
  std::vector<int> tasks;
  double fixed_sec = 0;
  double cores = 1;  // that it takes where devices share cores
  std::vector<Leg> legs;
};

// The jobs of a Program on a machine.
class JobMaker {
 public:
  JobMaker(const Program& program, const Machine& machine, const Routes& routes)
      : program_(program), machine_(machine), routes_(routes), cost_(machine, program.device_count) {}

  std::vector<Job> Make() {
    std::vector<Job> jobs;
    for (const Task& task : program_.tasks) {
      if (std::holds_alternative<program::Compute>(task.what)) jobs.push_back(Compute(task));
    }
    for (const Meeting& meeting : program::Meetings(program_).all()) {
      jobs.push_back(meeting.is_collective ? CollectiveJob(meeting) : ExchangeJob(meeting));
    }
    // The last is the host's part of a step.
    jobs.push_back({.fixed_sec = machine_.step_sec.value + machine_.step_sec_per_device.value * program_.device_count});
    return jobs;
  }

 private:
  Job Compute(const Task& task) {
    Job job{.tasks = {task.id.value}};
    const program::Op& op = std::get<program::Compute>(task.what).op;
    const bool load = std::holds_alternative<program::Load>(op), store = std::holds_alternative<program::Store>(op);
    const Route* host = load ? routes_.FromHost(task.device) : store ? routes_.ToHost(task.device) : nullptr;
    if (host != nullptr) {
      job.fixed_sec = machine_.launch_sec.value;
      job.legs = {
          {host->latency_sec, {{*host, static_cast<double>(load ? task.work.bytes_written : task.work.bytes_read)}}}};
      return job;
    }
    job.fixed_sec = SecondsOf(task);
    if (task.lane == program::Lane::kCompute)
      job.cores = std::max(1.0, std::floor(machine_.cores.value / program_.device_count));
    return job;
  }

  // Devices that do alike stand one after the other in the sequence: what costs the same as the task before is not
  // worked out again.
  double SecondsOf(const Task& task) {
    if (last_ == nullptr || !CostsTheSame(task, *last_)) seconds_ = cost_.Seconds(task);
    last_ = &task;
    return seconds_;
  }
  static bool CostsTheSame(const Task& a, const Task& b) {
    return a.what == b.what && a.work == b.work &&
           std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), b.uses.end(),
                      [](const auto& u, const auto& v) { return u.region.size == v.region.size; });
  }

  Job ExchangeJob(const Meeting& meeting) const {
    Job job = JobOf(meeting);
    std::vector<Phase> phases(1);
    double most = 0;
    for (TaskId id : meeting.sides) {
      const Task& side = program_.task(id);
      const auto& exchange = std::get<program::Exchange>(side.what);
      if (!exchange.sends) continue;
      phases[0].flows.push_back({side.device, exchange.peer, static_cast<double>(side.work.bytes_sent)});
      most = std::max(most, static_cast<double>(side.work.bytes_sent));
    }
    AddPhases(phases, "exchange", 2, most, job);
    return job;
  }

  Job CollectiveJob(const Meeting& meeting) const {
    Job job = JobOf(meeting);
    const Task& first = program_.task(meeting.sides[0]);
    const auto& collective = std::get<program::Collective>(first.what);
    const double bytes = OperandBytes(program_, first);
    const std::vector<int>& group = program_.groups[collective.group];
    AddPhases(cost_.CollectivePhases(routes_, collective.kind, group, bytes, collective.root),
              program::Name(collective.kind), static_cast<int>(group.size()), bytes, job);
    return job;
  }

  Job JobOf(const Meeting& meeting) const {
    Job job{.fixed_sec = machine_.launch_sec.value, .cores = static_cast<double>(meeting.sides.size())};
    for (TaskId side : meeting.sides) job.tasks.push_back(side.value);
    return job;
  }

  void AddPhases(const std::vector<Phase>& phases, const std::string& what, int members, double bytes, Job& job) const {
    const double measured = cost_.MeasuredTransferSeconds(what, members, bytes);
    if (measured >= 0) {
      job.fixed_sec = measured;
      return;
    }
    for (const Phase& phase : phases) {
      Leg first, second;
      for (const Flow& flow : phase.flows) {
        const std::vector<Route> route = routes_.Between(flow.from, flow.to);
        first.flows.push_back({route[0], flow.bytes});
        first.fixed_sec = std::max(first.fixed_sec, route[0].latency_sec * phase.hops);
        if (route.size() == 1) continue;
        second.flows.push_back({route[1], flow.bytes});
        second.fixed_sec = std::max(second.fixed_sec, route[1].latency_sec * phase.hops);
      }
      job.legs.push_back(std::move(first));
      if (!second.flows.empty()) job.legs.push_back(std::move(second));
      if (phase.summed_bytes > 0)
        job.legs.push_back({.fixed_sec = cost_.MemorySeconds(3 * phase.summed_bytes), .flows = {}});
    }
  }

  const Program& program_;
  const Machine& machine_;
  const Routes& routes_;
  const CostModel cost_;
  const Task* last_ = nullptr;  // of which seconds_ is the cost
  double seconds_ = 0;
};

class Run {
 public:
  Run(const Program& program, const Machine& machine, const Routes& routes, const SimulatorOptions& options)
      : program_(program),
        machine_(machine),
        jobs_(JobMaker(program, machine, routes).Make()),
        share_(routes.capacities()),
        max_steps_(std::max(options.max_steps, 2)),
        keeps_times_(options.trace),
        engine_taken_(routes.engine_count(), false),
        host_job_(static_cast<int>(jobs_.size()) - 1) {
    job_of_.resize(program.tasks.size());
    for (size_t j = 0; j < jobs_.size(); ++j) {
      for (int task : jobs_[j].tasks) job_of_[task] = static_cast<int>(j);
    }
    arrived_.assign(jobs_.size(), 0);
    progress_.resize(jobs_.size());
    ended_step_.assign(program.tasks.size(), -1);
    lanes_.resize(program.device_count * kLaneCount);
    for (const Task& task : program.tasks) LaneOf(task).order.push_back(task.id.value);
  }

  // False where it stands still before the end: never for a Program that Verify accepts.
  bool Go() {
    StartHost();
    while (static_cast<int>(finish_.size()) < max_steps_ && !IsSteady()) {
      if (!Advance()) return false;
    }
    return true;
  }

  const std::vector<double>& finish() const { return finish_; }
  const std::vector<std::vector<TaskTime>>& times() const { return times_; }
  int64_t tasks_run() const { return tasks_run_; }

 private:
  struct LaneState {
    std::vector<int> order;
    size_t next = 0;
    int step = 0;
    bool busy = false;
    bool blocked = false;  // the next task has been found waiting
  };
  // How far a job has come that runs.
  struct Progress {
    int leg = -1;  // −1: in the job's own seconds
    int flows_left = 0;
  };
  // When a part of a job ends that is no flow, on the clock; of equal ones the first to begin comes first.
  struct FixedEnd {
    double at = 0;
    int64_t order = 0;
    int job = 0;
    bool operator>(const FixedEnd& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  struct FlowOfJob {
    int job = 0;
    const FlowOnRoute* flow = nullptr;
  };

  LaneState& LaneOf(const Task& task) { return lanes_[task.device * kLaneCount + static_cast<int>(task.lane)]; }

  // The host enqueues the next step as soon as it may; where devices share cores it takes one.
  void StartHost() {
    if (host_busy_ || left_.size() >= finish_.size() + static_cast<size_t>(machine_.steps_in_flight)) return;
    host_busy_ = true;
    if (keeps_times_) times_.emplace_back(program_.tasks.size());
    left_.push_back(static_cast<int>(program_.tasks.size()));
    StartJob(host_job_, 0);
  }
  void EndHost() {
    host_busy_ = false;
    ++opened_;
    StartHost();
    for (int d = 0; d < program_.device_count; ++d) TryDevice(d);
  }

  void StartJob(int job, double delay_sec) {
    progress_[job] = {};
    StartFixedPart(job, delay_sec + jobs_[job].fixed_sec);
    demand_ += jobs_[job].cores;
  }

  void StartFixedPart(int job, double seconds) {
    Settle();
    fixed_.push({clock_ + seconds, next_order_++, job});
  }

  bool IsSteady() const {
    const size_t n = finish_.size();
    if (n < 4) return false;
    const double last = finish_[n - 1] - finish_[n - 2], before = finish_[n - 2] - finish_[n - 3];
    return std::abs(last - before) <= 1e-9 * last;
  }

  bool WaitsAreOver(const Task& task, int step) const {
    for (program::TaskId wait : task.waits) {
      if (ended_step_[wait.value] < step) return false;
    }
    for (program::TaskId wait : task.waits_previous) {
      if (ended_step_[wait.value] < step - 1) return false;
    }
    return true;
  }

  void TryLane(LaneState& lane) {
    if (lane.busy || lane.order.empty() || lane.step >= static_cast<int>(opened_)) return;
    const int id = lane.order[lane.next];
    if (!WaitsAreOver(program_.tasks[id], lane.step)) {
      lane.blocked = true;
      return;
    }
    const double handoff = std::exchange(lane.blocked, false) ? machine_.handoff_sec.value : 0;
    lane.busy = true;
    if (keeps_times_) times_[lane.step][id].start = absl::Seconds(now_ + handoff);
    const int job = job_of_[id];
    if (++arrived_[job] < static_cast<int>(jobs_[job].tasks.size())) return;
    arrived_[job] = 0;
    StartJob(job, handoff);
  }

  void TryDevice(int device) {
    for (int l = 0; l < kLaneCount; ++l) TryLane(lanes_[device * kLaneCount + l]);
  }

  bool SharesCores() const { return machine_.cores.value > 0; }
  // Brings the clock up to now. Where cores are shared it goes at the speed of all that shares them.
  void Settle() {
    clock_ = SharesCores() ? clock_ + (now_ - settled_) * Speed() : now_;
    settled_ = now_;
  }
  double Speed() const { return demand_ > machine_.cores.value ? machine_.cores.value / demand_ : 1.0; }

  double NextFixedEnd() {
    if (fixed_.empty()) return kNever;
    if (!SharesCores()) return fixed_.top().at;
    Settle();
    return now_ + std::max(0.0, fixed_.top().at - clock_) / Speed();
  }

  // To the next event, and what follows from it. While time stands still flows need no rates.
  bool Advance() {
    const double fixed = NextFixedEnd();
    if (fixed > now_ && share_.NextEnd() < fixed) {
      now_ = std::max(now_, share_.NextEnd());
      EndFlow(share_.EndNext(now_));
      return true;
    }
    if (fixed == kNever) return false;
    now_ = std::max(now_, fixed);
    const int job = fixed_.top().job;
    fixed_.pop();
    EndFixedPart(job);
    return true;
  }

  void EndFixedPart(int job) {
    Progress& progress = progress_[job];
    const std::vector<Leg>& legs = jobs_[job].legs;
    if (progress.leg < 0 || legs[progress.leg].flows.empty()) return NextLeg(job);
    progress.flows_left = static_cast<int>(legs[progress.leg].flows.size());
    for (const FlowOnRoute& flow : legs[progress.leg].flows) waiting_.push_back({job, &flow});
    StartWaitingFlows();
  }

  bool StartIfFree(const FlowOfJob& waiting) {
    const Route& route = waiting.flow->route;
    if (std::any_of(route.engines.begin(), route.engines.end(), [&](int engine) { return engine_taken_[engine]; })) {
      return false;
    }
    for (int engine : route.engines) engine_taken_[engine] = true;
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<int>(running_.size()));
      running_.emplace_back();
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    running_[slot] = waiting;
    share_.Start(now_, slot, waiting.flow->bytes, route.bytes_per_sec, route.resources);
    return true;
  }

  // Those whose engines are free, in the order in which they came.
  void StartWaitingFlows() {
    size_t kept = 0;
    for (const FlowOfJob& flow : waiting_) {
      if (!StartIfFree(flow)) waiting_[kept++] = flow;
    }
    waiting_.resize(kept);
  }

  void EndFlow(int slot) {
    const FlowOfJob ended = running_[slot];
    free_slots_.push_back(slot);
    for (int engine : ended.flow->route.engines) engine_taken_[engine] = false;
    if (!waiting_.empty()) StartWaitingFlows();
    if (--progress_[ended.job].flows_left == 0) NextLeg(ended.job);
  }

  void NextLeg(int index) {
    const Job& job = jobs_[index];
    if (const int leg = ++progress_[index].leg; leg < static_cast<int>(job.legs.size())) {
      return StartFixedPart(index, job.legs[leg].fixed_sec);
    }
    Settle();
    demand_ -= job.cores;
    if (index == host_job_) return EndHost();
    for (int task : job.tasks) EndTask(program_.tasks[task]);
    for (int task : job.tasks) TryDevice(program_.tasks[task].device);
  }

  void EndTask(const Task& task) {
    LaneState& lane = LaneOf(task);
    if (keeps_times_) times_[lane.step][task.id.value].end = absl::Seconds(now_);
    ended_step_[task.id.value] = lane.step;
    ++tasks_run_;
    if (--left_[lane.step] == 0) {
      finish_.push_back(now_);
      StartHost();
    }
    lane.busy = false;
    if (++lane.next < lane.order.size()) return;
    lane.next = 0;
    ++lane.step;
  }

  const Program& program_;
  const Machine& machine_;
  const std::vector<Job> jobs_;
  std::vector<int> job_of_;  // by task
  FairShare share_;
  const int max_steps_;
  const bool keeps_times_;

  double now_ = 0, settled_ = 0, demand_ = 0;
  double clock_ = 0;  // at settled_: seconds that a part of a job, begun at 0, would have gone
  std::vector<LaneState> lanes_;
  std::vector<Progress> progress_;  // by job
  std::priority_queue<FixedEnd, std::vector<FixedEnd>, std::greater<>> fixed_;
  int64_t next_order_ = 0;
  std::vector<FlowOfJob> running_;  // by slot, FairShare's owners
  std::vector<int> free_slots_;
  std::vector<FlowOfJob> waiting_;  // for a copy engine
  std::vector<bool> engine_taken_;
  std::vector<int> arrived_;     // by job: sides that are there
  std::vector<int> ended_step_;  // by task: the last step in which it ended
  const int host_job_;           // what the host does in each step
  bool host_busy_ = false;
  size_t opened_ = 0;                         // steps that have been enqueued by now
  std::vector<int> left_;                     // by step: tasks to go
  std::vector<double> finish_;                // by step
  std::vector<std::vector<TaskTime>> times_;  // by step; empty if nobody wants them
  int64_t tasks_run_ = 0;
};

// What of the time of a device, whose tasks are these, between `begin` and `end` went where, over all steps.
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
  Breakdown breakdown = window.events.empty() ? Breakdown{} : BreakDown(window, 1)[0];
  breakdown.idle = end - begin - breakdown.compute - breakdown.exposed_communication - breakdown.input_wait;
  return breakdown;
}

// Of each device, all buffers densely packed.
std::vector<int64_t> PeakMemoryOf(const Program& program) {
  const program::MemoryMap map =
      program::PlaceBuffers(program, [&](const program::Buffer& buffer) { return program::DenseSizeOf(program, buffer); });
  std::vector<int64_t> bytes;
  for (int d = 0; d < program.device_count; ++d) bytes.push_back(map.step_bytes[d] + map.persistent_bytes[d]);
  return bytes;
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Program& program, const Machine& machine, const SimulatorOptions& options) {
  if (program.device_count > machine.device_count()) {
    return absl::FailedPreconditionError(absl::StrFormat("the Program uses %d devices, machine %s has %d",
                                                         program.device_count, machine.name, machine.device_count()));
  }
  ASSIGN_OR_RETURN(Routes routes, Routes::Create(machine));
  Run run(program, machine, routes, options);
  if (!run.Go()) return absl::InternalError("the simulation stands still: the Program waits for itself");
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
  simulation.devices.resize(program.device_count);
  std::vector<std::vector<const Task*>> tasks_of(program.device_count);
  for (const Task& task : program.tasks) {
    simulation.devices[task.device].sent_bytes += task.work.bytes_sent;
    tasks_of[task.device].push_back(&task);
  }
  for (int d = 0; d < program.device_count; ++d) {
    SimulatedDevice& device = simulation.devices[d];
    device.peak_memory_bytes = memory[d];
    if (!options.trace) continue;
    const Breakdown b = BetweenSteps(tasks_of[d], run.times(), absl::Seconds(finish[n - 2]), absl::Seconds(finish[n - 1]));
    device.compute = b.compute;
    device.exposed_communication = b.exposed_communication;
    device.input_wait = b.input_wait;
    device.idle = b.idle;
  }
  if (options.trace) simulation.last_steps = MakeTrace(program, absl::MakeSpan(run.times()).subspan(n - 2, 2));
  return simulation;
}

}  // namespace colonnade::engine
