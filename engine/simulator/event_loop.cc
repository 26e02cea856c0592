#include "engine/simulator/event_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/time/time.h"

namespace colonnade::engine {

namespace {

// The stock of batches that an input makes ahead, or of steps that the host enqueues ahead, may fill or empty by a small
// part of one in each step.
constexpr int kStepsWithoutStock = 12, kStepsWithStock = 64, kStepsAheadWithoutStock = 2;

int MostSteps(int asked, bool has_input, int steps_in_flight) {
  constexpr int kLeast = 2;  // of which the second is what a step takes
  if (asked > 0) return std::max(asked, kLeast);
  return has_input || steps_in_flight > kStepsAheadWithoutStock ? kStepsWithStock : kStepsWithoutStock;
}

// Whether a stock was as large at the end of the last step as a step before. `made`: since the start, by step.
bool IsStockSteady(const std::vector<double>& made) {
  const size_t n = made.size();
  return std::abs(made[n - 1] - made[n - 2] - 1) <= 1e-9;
}

}  // namespace

using program::kLaneCount;
using program::Program;
using program::Task;

EventLoop::EventLoop(const Program& program, const Machine& machine, Jobs jobs, int engines, const SimulatorOptions& options)
    : program_(program),
      machine_(machine),
      jobs_(std::move(jobs.all)),
      flows_(std::move(jobs.flows)),
      max_steps_(MostSteps(options.max_steps, jobs.input >= 0, machine.steps_in_flight)),
      slowdown_(1 + machine.overlap_slowdown.value),
      keeps_times_(options.trace),
      clock_(machine.cores.value, jobs_.size()),
      running_flows_(std::move(jobs.capacities), engines),
      input_job_(jobs.input),
      host_job_(jobs.host),
      batches_made_(jobs.batches) {
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

bool EventLoop::Run() {
  StartInput();
  StartHost();
  while (static_cast<int>(step_ends_.size()) < max_steps_ && !IsSteady()) {
    if (!Advance()) return false;
  }
  EndTimesOfWhatRuns();
  return true;
}

void EventLoop::EndTimesOfWhatRuns() {
  if (!keeps_times_) return;
  for (const LaneState& lane : lanes_) {
    if (!lane.busy) continue;
    TaskTime& time = times_[lane.step][lane.order[lane.next]];
    time.end = std::max(time.start, absl::Seconds(now_));
  }
}

// Advances to the next event and does what follows from it. Events that are due now come first, so that the flows' rates are
// shared out again only when time moves on.
bool EventLoop::Advance() {
  const double fixed = clock_.NextEnd(now_);
  if (fixed > now_ && running_flows_.NextEnd() < fixed) {
    now_ = std::max(now_, running_flows_.NextEnd());
    EndFlow(running_flows_.EndNext(now_));
    return true;
  }
  if (fixed == std::numeric_limits<double>::infinity()) return false;
  now_ = std::max(now_, fixed);
  EndFixedPart(clock_.EndNext());
  return true;
}

bool EventLoop::IsSteady() const {
  const size_t n = step_ends_.size();
  if (n < 4) return false;
  const double last = step_ends_[n - 1] - step_ends_[n - 2], before = step_ends_[n - 2] - step_ends_[n - 3];
  const bool input_is = input_job_ < 0 || IsStockSteady(batches_at_end_);
  return input_is && IsStockSteady(enqueued_at_end_) && std::abs(last - before) <= 1e-9 * last;
}

// The host enqueues the next step as soon as it may. Where devices share cores, its work takes one of them.
void EventLoop::StartHost() {
  if (host_busy_ || tasks_left_.size() >= step_ends_.size() + static_cast<size_t>(machine_.steps_in_flight)) return;
  host_busy_ = true;
  if (keeps_times_) times_.emplace_back(program_.tasks.size());
  tasks_left_.push_back(static_cast<int>(program_.tasks.size()));
  StartJob(host_job_, 0);
}

void EventLoop::EndHost() {
  host_busy_ = false;
  ++steps_enqueued_;
  StartInput();
  StartHost();
  for (int d = 0; d < program_.device_count; ++d) TryDevice(d);
}

// The input makes batches one after the other, at most so many beyond those of steps that are enqueued.
void EventLoop::StartInput() {
  if (input_job_ < 0 || input_busy_ || batches_made_ >= steps_enqueued_ + kBatchesAhead) return;
  input_busy_ = true;
  StartJob(input_job_, 0);
}

void EventLoop::EndInput() {
  input_busy_ = false;
  ++batches_made_;
  StartInput();
  std::vector<WaitingLoad> waiting;
  std::swap(waiting, waiting_loads_);
  for (const WaitingLoad& load : waiting) StartLoad(load);
}

void EventLoop::StartLoad(const WaitingLoad& load) {
  if (input_job_ < 0 || load.step < static_cast<int>(batches_made_)) return StartJob(load.job, load.delay_sec);
  waiting_loads_.push_back(load);
}

double EventLoop::DoneOf(int job) { return 1 - clock_.SecondsLeft(now_, job) / jobs_[job].fixed_sec; }

// Return how many batches the input has made by now, and steps the host enqueued; a fraction counts the one in progress.
double EventLoop::BatchesMade() { return static_cast<double>(batches_made_) + (input_busy_ ? DoneOf(input_job_) : 0); }

double EventLoop::StepsEnqueued() {
  const bool takes_time = jobs_[host_job_].fixed_sec > 0;
  return static_cast<double>(steps_enqueued_) + (host_busy_ && takes_time ? DoneOf(host_job_) : 0);
}

EventLoop::LaneState& EventLoop::LaneOf(const Task& task) {
  return lanes_[task.device * kLaneCount + static_cast<int>(task.lane)];
}

bool EventLoop::WaitsAreOver(const Task& task, int step) const {
  for (program::TaskId wait : task.waits) {
    if (ended_step_[wait.value] < step) return false;
  }
  for (program::TaskId wait : task.waits_previous) {
    if (ended_step_[wait.value] < step - 1) return false;
  }
  return true;
}

void EventLoop::TryLane(LaneState& lane) {
  if (lane.busy || lane.order.empty() || lane.step >= static_cast<int>(steps_enqueued_)) return;
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

void EventLoop::TryDevice(int device) {
  for (int l = 0; l < kLaneCount; ++l) TryLane(lanes_[device * kLaneCount + l]);
}

void EventLoop::EndTask(const Task& task) {
  LaneState& lane = LaneOf(task);
  if (keeps_times_) times_[lane.step][task.id.value].end = absl::Seconds(now_);
  ended_step_[task.id.value] = lane.step;
  ++tasks_run_;
  if (--tasks_left_[lane.step] == 0) {
    step_ends_.push_back(now_);
    batches_at_end_.push_back(BatchesMade());
    enqueued_at_end_.push_back(StepsEnqueued());
    StartHost();
  }
  lane.busy = false;
  if (++lane.next < lane.order.size()) return;
  lane.next = 0;
  ++lane.step;
}

void EventLoop::StartJob(int job, double delay_sec) {
  progress_[job] = {};
  StartFixedPart(job, delay_sec + jobs_[job].fixed_sec);
  clock_.Demand(now_, jobs_[job].cores);
  NoteTransfers(jobs_[job], +1);
}

void EventLoop::StartFixedPart(int job, double seconds) {
  const bool is_slowed = jobs_[job].kind == Job::Kind::kCompute && devices_[DeviceOf(jobs_[job])].running_transfers > 0;
  clock_.Start(now_, job, is_slowed ? seconds * slowdown_ : seconds);
}

void EventLoop::EndFixedPart(int job) {
  JobProgress& progress = progress_[job];
  const std::vector<Leg>& legs = jobs_[job].legs;
  if (progress.leg < 0 || legs[progress.leg].flows < 0) return NextLeg(job);
  const Leg& leg = legs[progress.leg];
  const std::vector<FlowOnRoute>& flows = flows_[leg.flows].flows;
  if (flows.empty()) return NextLeg(job);
  progress.flows_left = static_cast<int>(flows.size());
  running_flows_.Start(now_, job, flows, leg.bytes);
}

void EventLoop::EndFlow(int job) {
  if (--progress_[job].flows_left == 0) NextLeg(job);
}

void EventLoop::NextLeg(int job) {
  const std::vector<Leg>& legs = jobs_[job].legs;
  const int leg = ++progress_[job].leg;
  if (leg == static_cast<int>(legs.size())) return EndJob(job);
  StartFixedPart(job, legs[leg].fixed_sec);
}

void EventLoop::EndJob(int index) {
  const Job& job = jobs_[index];
  clock_.Demand(now_, -job.cores);
  NoteTransfers(job, -1);
  if (index == host_job_) return EndHost();
  if (index == input_job_) return EndInput();
  for (int task : job.tasks) EndTask(program_.tasks[task]);
  for (int task : job.tasks) TryDevice(program_.tasks[task].device);
}

// Notes that a job starts (+1) or ends (-1). Where it is a transfer, what its devices compute beside it changes its speed.
void EventLoop::NoteTransfers(const Job& job, int change) {
  if (slowdown_ == 1) return;
  if (job.kind == Job::Kind::kCompute) devices_[DeviceOf(job)].computing_job = change > 0 ? job_of_[job.tasks[0]] : kNoJob;
  if (job.kind != Job::Kind::kTransfer) return;
  for (int task : job.tasks) {
    DeviceState& device = devices_[program_.tasks[task].device];
    device.running_transfers += change;
    const bool changes_speed = device.running_transfers == std::max(change, 0);  // the first that starts, the last that ends
    if (!changes_speed || device.computing_job == kNoJob) continue;
    clock_.Stretch(now_, device.computing_job, change > 0 ? slowdown_ : 1 / slowdown_);
  }
}

}  // namespace colonnade::engine
