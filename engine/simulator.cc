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
#include "engine/fair_share.h"
#include "engine/jobs.h"
#include "engine/routes.h"
#include "program/memory.h"
#include "program/status_macros.h"

namespace colonnade::engine {
namespace {

using program::kLaneCount;
using program::Program;
using program::Task;
using program::TaskId;

constexpr double kNever = std::numeric_limits<double>::infinity();

class Execution {
 public:
  Execution(const Program& program, const Machine& machine, Jobs jobs, int engines, const SimulatorOptions& options)
      : program_(program),
        machine_(machine),
        jobs_(std::move(jobs.all)),
        flows_(std::move(jobs.flows)),
        share_(std::move(jobs.capacities)),
        max_steps_(std::max(options.max_steps, 2)),
        slowdown_(1 + machine.overlap_slowdown.value),
        keeps_times_(options.trace),
        engine_taken_(engines, false),
        input_job_(jobs.input),
        host_job_(jobs.host),
        batches_(jobs.batches) {
    job_of_.resize(program.tasks.size());
    for (size_t j = 0; j < jobs_.size(); ++j) {
      for (int task : jobs_[j].tasks) job_of_[task] = static_cast<int>(j);
    }
    arrived_.assign(jobs_.size(), 0);
    progress_.resize(jobs_.size());
    devices_.resize(program.device_count);
    ended_step_.assign(program.tasks.size(), -1);
    lanes_.resize(program.device_count * kLaneCount);
    for (const Task& task : program.tasks) LaneOf(task).order.push_back(task.id.value);
  }

  // False where it stands still before the end: never for a Program that Verify accepts.
  bool Go() {
    StartInput();
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
  static constexpr int kNoJob = -1;
  // When a part of a job ends that is no flow, on the clock; of equal ones the first to begin comes first.
  struct FixedEnd {
    double at = 0;
    int64_t order = 0;
    int job = kNoJob;
    bool operator>(const FixedEnd& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  struct Progress {
    int leg = -1;  // −1: in the job's own seconds
    int flows_left = 0;
    FixedEnd end = {};  // of the part that runs; others in the queue hold no more
  };
  // Of a batch that the input has not made.
  struct WaitingLoad {
    int job = 0, step = 0;
    double delay_sec = 0;
  };
  struct DeviceState {
    int computes = kNoJob;  // on its compute lane
    int transfers = 0;      // in which it takes part
  };

  struct FlowOfJob {
    int job = 0;
    const FlowOnRoute* flow = nullptr;
    double bytes = 0;
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
    StartInput();
    StartHost();
    for (int d = 0; d < program_.device_count; ++d) TryDevice(d);
  }

  // The input makes batches one after the other, at most so many beyond those of steps that are enqueued.
  void StartInput() {
    if (input_job_ < 0 || input_busy_ || batches_ >= opened_ + kBatchesAhead) return;
    input_busy_ = true;
    StartJob(input_job_, 0);
  }
  void EndInput() {
    input_busy_ = false;
    ++batches_;
    StartInput();
    std::vector<WaitingLoad> waiting;
    std::swap(waiting, waiting_loads_);
    for (const WaitingLoad& load : waiting) StartLoad(load);
  }
  void StartLoad(const WaitingLoad& load) {
    if (input_job_ < 0 || load.step < static_cast<int>(batches_)) return StartJob(load.job, load.delay_sec);
    waiting_loads_.push_back(load);
  }

  void StartJob(int job, double delay_sec) {
    progress_[job] = {};
    StartFixedPart(job, delay_sec + jobs_[job].fixed_sec);
    demand_ += jobs_[job].cores;
    Note(jobs_[job], +1);
  }

  void StartFixedPart(int job, double seconds) {
    Settle();
    const bool is_slowed = jobs_[job].kind == Job::Kind::kCompute && devices_[DeviceOf(jobs_[job])].transfers > 0;
    EndAt(job, clock_ + (is_slowed ? seconds * slowdown_ : seconds));
  }
  void EndAt(int job, double at) {
    progress_[job].end = {at, next_order_++, job};
    fixed_.push(progress_[job].end);
  }

  int DeviceOf(const Job& job) const { return program_.tasks[job.tasks[0]].device; }
  // That a job starts, or ends: its devices compute slower while they take part in a transfer.
  void Note(const Job& job, int change) {
    if (slowdown_ == 1) return;
    if (job.kind == Job::Kind::kCompute) {
      devices_[DeviceOf(job)].computes = change > 0 ? job_of_[job.tasks[0]] : kNoJob;
    }
    if (job.kind != Job::Kind::kTransfer) return;
    for (int task : job.tasks) {
      DeviceState& device = devices_[program_.tasks[task].device];
      device.transfers += change;
      if (device.transfers == std::max(change, 0)) ChangeSpeed(device.computes, change > 0 ? slowdown_ : 1 / slowdown_);
    }
  }
  // What is left of a computation takes `factor` times as long from now on.
  void ChangeSpeed(int job, double factor) {
    if (job == kNoJob) return;
    Settle();
    EndAt(job, clock_ + factor * (progress_[job].end.at - clock_));
  }

  bool IsSteady() const {
    const size_t n = finish_.size();
    if (n < 4) return false;
    const double last = finish_[n - 1] - finish_[n - 2], before = finish_[n - 2] - finish_[n - 3];
    const bool input_is = input_job_ < 0 || std::abs(batches_at_[n - 1] - batches_at_[n - 2] - 1) <= 1e-9;
    return input_is && std::abs(last - before) <= 1e-9 * last;
  }
  // That the input has made by now, the part of one that it makes among them.
  double BatchesMade() {
    if (!input_busy_) return static_cast<double>(batches_);
    Settle();
    const double left = (progress_[input_job_].end.at - clock_) / jobs_[input_job_].fixed_sec;
    return static_cast<double>(batches_) + 1 - left;
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
    if (jobs_[job].kind == Job::Kind::kLoad) return StartLoad({job, lane.step, handoff});
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
    while (!fixed_.empty() && fixed_.top().order != progress_[fixed_.top().job].end.order) fixed_.pop();
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
    if (progress.leg < 0 || legs[progress.leg].flows < 0) return NextLeg(job);
    const Leg& leg = legs[progress.leg];
    const std::vector<FlowOnRoute>& flows = flows_[leg.flows].flows;
    if (flows.empty()) return NextLeg(job);
    progress.flows_left = static_cast<int>(flows.size());
    for (const FlowOnRoute& flow : flows) waiting_.push_back({job, &flow, flow.bytes * leg.bytes});
    StartWaitingFlows();
  }

  bool StartIfFree(const FlowOfJob& waiting) {
    const FlowOnRoute& flow = *waiting.flow;
    if (std::any_of(flow.engines.begin(), flow.engines.end(), [&](int engine) { return engine_taken_[engine]; })) {
      return false;
    }
    for (int engine : flow.engines) engine_taken_[engine] = true;
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<int>(running_.size()));
      running_.emplace_back();
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    running_[slot] = waiting;
    share_.Start(now_, slot, waiting.bytes, flow.most, flow.uses);
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
    for (int engine : ended.flow->engines) engine_taken_[engine] = false;
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
    Note(job, -1);
    if (index == host_job_) return EndHost();
    if (index == input_job_) return EndInput();
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
      batches_at_.push_back(BatchesMade());
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
  const std::vector<FlowSet> flows_;
  std::vector<int> job_of_;  // by task
  FairShare share_;
  const int max_steps_;
  const double slowdown_;  // of compute beside a transfer
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
  std::vector<DeviceState> devices_;
  const int input_job_, host_job_;  // what input and host do for each step; kNoJob: the input does nothing
  bool input_busy_ = false, host_busy_ = false;
  size_t batches_ = 0;  // that the input has made
  std::vector<WaitingLoad> waiting_loads_;
  size_t opened_ = 0;                         // steps that have been enqueued by now
  std::vector<int> left_;                     // by step: tasks to go
  std::vector<double> finish_;                // by step
  std::vector<double> batches_at_;            // by step: BatchesMade when it finished
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

absl::StatusOr<Simulator> Simulator::Create(const Machine& machine, int devices) {
  if (devices > machine.device_count()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the Program uses %d devices, machine %s has %d", devices, machine.Title(), machine.device_count()));
  }
  ASSIGN_OR_RETURN(Routes routes, Routes::Create(machine, devices));
  return Simulator(machine, std::move(routes));
}

absl::StatusOr<Simulation> Simulator::RunJobs(const Program& program, Jobs jobs, const SimulatorOptions& options) const {
  Execution run(program, machine_, std::move(jobs), routes_.engine_count(), options);
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

absl::StatusOr<Simulation> Simulator::Run(const Program& program, const SimulatorOptions& options) const {
  return RunJobs(program, JobsOf(program, machine_, routes_), options);
}

absl::StatusOr<Simulation> Simulator::Run(const program::Representatives& representatives,
                                          const SimulatorOptions& options) const {
  ASSIGN_OR_RETURN(Simulation simulation,
                   RunJobs(representatives.program, JobsOf(representatives, machine_, routes_), options));
  for (const std::vector<int>& alike : representatives.stands_for) {
    for (int device : alike) simulation.devices[device] = simulation.devices[alike[0]];
  }
  return simulation;
}

absl::StatusOr<Simulation> Simulate(const Program& program, const Machine& machine, const SimulatorOptions& options) {
  ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Create(machine, program.device_count));
  return simulator.Run(program, options);
}

absl::StatusOr<Simulation> Simulate(const program::Representatives& representatives, const Machine& machine,
                                    const SimulatorOptions& options) {
  ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Create(machine, representatives.program.device_count));
  return simulator.Run(representatives, options);
}

}  // namespace colonnade::engine
