// Boils the times of Programs' tasks down to the numbers of a machine profile.
#ifndef COLONNADE_TOOLS_OBSERVATIONS_H_
#define COLONNADE_TOOLS_OBSERVATIONS_H_

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/machine.h"
#include "engine/trace.h"
#include "program/meetings.h"
#include "program/program.h"
#include "tools/host_terms.h"
#include "tools/transfers.h"

namespace colonnade::tools {

// Returns the factor within which the times of one thing are right, as a profile states it: that of their middle half. 0,
// for unknown, where there are fewer than four.
double FactorOfTimes(const std::vector<double>& seconds);

class Observations {
 public:
  // What was measured in some steps of a Program: the times of their tasks, by step and task index, how long each step took,
  // and how long the host took to enqueue it.
  struct Run {
    const program::Program& program;
    absl::Span<const std::vector<engine::TaskTime>> times;
    absl::Span<const double> step_seconds, host_seconds;
  };
  // Takes from a run the rates of its ops, the times of its transfers, gaps between tasks, skew, the host's time, and how
  // long devices take for the same tasks. Times are means over all steps but the longest tenth, so that the times of a
  // lane's tasks add up to the measured time of a step: they include what makes a task wait now and then, such as another
  // process that needs a core.
  void AddRun(const Run& run);
  // Takes from an overlapped run gaps, the host's time, and how much slower compute is beside transfers.
  void AddOverlapped(const Run& run);
  void AddTransfer(const TransferTime& transfer);

  // Return the rates of the fastest device, and the times of transfers. An op's rates are right within the median of the
  // factors of its shapes' times, a transfer's times within the median of those of its sizes.
  std::vector<engine::OpRate> Rates() const;
  std::vector<engine::MeasuredTransfer> Transfers() const;
  HostFit host() const;       // of the median step of each Program
  double launch_sec() const;  // between two tasks of a lane
  double launch_within() const;
  double handoff_sec() const;  // how much more than that after a task of another lane
  double handoff_within() const;
  // Returns how much longer compute takes beside a transfer of its device than alone, as a part. Nothing where no op was
  // seen both ways, or where times contradict each other.
  std::optional<double> overlap_slowdown() const;
  // Returns, for two devices that meet, the wait for the slower one over the time since the meeting before. It is right
  // within the factor of the runs' skews.
  double skew() const;
  double skew_within() const;
  // Returns, by device, how many times as long as the fastest it computes; devices beyond the result count as fastest. A
  // device differs from device 0 where in all runs the middle half of the steps says that it is slower, or in all that it is
  // faster.
  std::vector<double> Slowness() const;

 private:
  struct DeviceSeconds {
    int device = 0;
    double seconds = 0;
  };
  struct Seen {
    double flops = 0, bytes = 0;
    std::vector<DeviceSeconds> times;
  };
  using Key = std::tuple<std::string, int, double, double, double, double, double, double>;

  // One op of an overlapped run: how long it took, and how long of that a transfer ran beside it.
  struct Beside {
    int device = 0;
    double seconds = 0, common_sec = 0;
  };
  // Means over the steps of a run: the time from meeting to meeting, and how much longer than that the slower of two devices
  // takes.
  struct Waits {
    double way_sec = 0, waited_sec = 0;
  };
  // How many times as long as device 0 a device takes for the same tasks, over the steps of a run.
  struct Ratios {
    double lower_quartile = 0, median = 0, upper_quartile = 0;
  };

  static Key KeyOf(const program::Program& program, const program::Task& task);
  // A computation of a device, and the one of device 0 that does the same.
  struct AlikeTasks {
    program::TaskId own, first;
  };
  static std::vector<std::vector<AlikeTasks>> AlikeTasksOf(const program::Program& program);
  static std::vector<double> SecondsOnTheFastest(const Seen& seen, const std::vector<double>& slowness);
  void AddHost(const Run& run);
  void AddRatios(const Run& run);
  void AddOverlaps(const program::Program& program, const std::vector<program::Meeting>& meetings,
                   const std::vector<engine::TaskTime>& times);
  void AddTask(const program::Program& program, const program::Task& task, const engine::TaskTime& time);
  void AddMeeting(const program::Program& program, const program::Meeting& meeting,
                  const std::vector<engine::TaskTime>& times);
  void AddSkew(const program::Program& program, const std::vector<program::Meeting>& meetings,
               absl::Span<const std::vector<engine::TaskTime>> all_times, absl::Span<const size_t> steps);
  void AddGaps(const program::Program& program, const std::vector<engine::TaskTime>& times);

  std::map<Key, Seen> tasks_;
  std::map<Key, std::vector<Beside>> beside_;
  std::map<std::pair<std::string, int>, std::map<double, std::vector<double>>> transfers_;  // by bytes
  std::vector<double> gaps_, handoffs_;
  std::vector<HostStep> hosts_;
  std::map<int, std::vector<Ratios>> ratios_;  // by device, of each run
  std::vector<Waits> waits_;                   // of each run in which devices meet
};

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_OBSERVATIONS_H_
