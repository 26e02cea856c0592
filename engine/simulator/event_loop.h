// Internal to engine/. Runs a Program on a machine profile, event by event; engine/simulator.h says by which rules.
#ifndef COLONNADE_ENGINE_SIMULATOR_EVENT_LOOP_H_
#define COLONNADE_ENGINE_SIMULATOR_EVENT_LOOP_H_

#include <cstdint>
#include <vector>

#include "engine/machine.h"
#include "engine/simulator.h"
#include "engine/simulator/job_clock.h"
#include "engine/simulator/jobs.h"
#include "engine/simulator/running_flows.h"
#include "engine/trace.h"
#include "program/program.h"

namespace colonnade::engine {

class EventLoop {
 public:
  // `program` and `machine` must outlive the result. `engines` is the number of copy engines that routes of the jobs pass.
  EventLoop(const program::Program& program, const Machine& machine, Jobs jobs, int engines,
            const SimulatorOptions& options);

  // Runs steps until the time from one to the next is steady, or max_steps. Returns false where no task can start any more,
  // which never happens to a Program that Verify accepts.
  bool Run();

  bool IsSteady() const;
  const std::vector<double>& step_ends() const { return step_ends_; }  // by step
  // By step; empty without options.trace. What still runs when Run returns ends at that time.
  const std::vector<std::vector<TaskTime>>& times() const { return times_; }
  int64_t tasks_run() const { return tasks_run_; }

 private:
  static constexpr int kNoJob = -1;
  struct LaneState {
    std::vector<int> order;
    size_t next = 0;
    int step = 0;
    bool busy = false;
    bool blocked = false;  // the next task has been found waiting
  };
  struct JobProgress {
    int leg = -1;  // −1: in the job's own seconds
    int flows_left = 0;
  };
  // A load whose batch the input has not made yet.
  struct WaitingLoad {
    int job = 0, step = 0;
    double delay_sec = 0;
  };
  struct DeviceState {
    int computing_job = kNoJob;  // on its compute lane
    int running_transfers = 0;   // in which it takes part
  };

  // Host and input.
  void StartHost();
  void EndHost();
  void StartInput();
  void EndInput();
  void StartLoad(const WaitingLoad& load);
  double DoneOf(int job);  // the part of it, 0 to 1
  double BatchesMade();
  double StepsEnqueued();

  // Lanes.
  LaneState& LaneOf(const program::Task& task);
  bool WaitsAreOver(const program::Task& task, int step) const;
  void TryLane(LaneState& lane);
  void TryDevice(int device);
  void EndTask(const program::Task& task);

  // Jobs.
  void StartJob(int job, double delay_sec);
  void StartFixedPart(int job, double seconds);
  void EndFixedPart(int job);
  void EndFlow(int job);
  void NextLeg(int job);
  void EndJob(int job);
  int DeviceOf(const Job& job) const { return program_.tasks[job.tasks[0]].device; }
  void NoteTransfers(const Job& job, int change);

  bool Advance();
  void EndTimesOfWhatRuns();

  const program::Program& program_;
  const Machine& machine_;
  const std::vector<Job> jobs_;
  const std::vector<FlowSet> flows_;
  std::vector<int> job_of_;  // by task
  const int max_steps_;
  const double slowdown_;  // of compute beside a transfer
  const bool keeps_times_;

  double now_ = 0;
  JobClock clock_;
  RunningFlows running_flows_;
  std::vector<LaneState> lanes_;
  std::vector<JobProgress> progress_;  // by job
  std::vector<int> arrived_;           // by job: sides that are there
  std::vector<int> ended_step_;        // by task: the last step in which it ended
  std::vector<DeviceState> devices_;
  const int input_job_, host_job_;  // what input and host do for each step; kNoJob: the input does nothing
  bool input_busy_ = false, host_busy_ = false;
  size_t batches_made_;  // by the input
  std::vector<WaitingLoad> waiting_loads_;
  size_t steps_enqueued_ = 0;                 // by now
  std::vector<int> tasks_left_;               // by step: tasks to go
  std::vector<double> step_ends_;             // by step
  std::vector<double> batches_at_end_;        // by step: BatchesMade when it finished
  std::vector<double> enqueued_at_end_;       // by step: StepsEnqueued then
  std::vector<std::vector<TaskTime>> times_;  // by step
  int64_t tasks_run_ = 0;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_EVENT_LOOP_H_
