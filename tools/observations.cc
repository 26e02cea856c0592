#include "tools/observations.h"

#include <algorithm>

#include "engine/machine_quantities.h"
#include "engine/simulator/cost_model.h"
#include "engine/statistics.h"
#include "program/op_traits.h"

namespace colonnade::tools {
namespace {

using engine::OpRate;
using engine::Origin;
using program::Meeting;
using program::Task;
using program::TaskId;

double SlownessOf(int device, const std::vector<double>& slowness) {
  return device < static_cast<int>(slowness.size()) ? slowness[device] : 1;
}

// When its last side is there, and when its sides have ended, on the average.
absl::Duration BeginOf(const Meeting& meeting, const std::vector<engine::TaskTime>& times) {
  absl::Duration begin = -absl::InfiniteDuration();
  for (TaskId side : meeting.sides) begin = std::max(begin, times[side.value].start);
  return begin;
}
absl::Duration MeanEnd(const Meeting& meeting, const std::vector<engine::TaskTime>& times) {
  absl::Duration sum;
  for (TaskId side : meeting.sides) sum += times[side.value].end;
  return sum / static_cast<double>(meeting.sides.size());
}

// Returns, for the device of each side, its last side of the meeting before, from which it comes; nothing where one had
// none.
std::vector<TaskId> SidesBefore(const program::Program& program, const Meeting& meeting, const Meeting& before) {
  std::vector<TaskId> sides;
  for (TaskId side : meeting.sides) {
    const auto of_device = std::find_if(before.sides.rbegin(), before.sides.rend(),
                                        [&](TaskId one) { return program.task(one).device == program.task(side).device; });
    if (of_device == before.sides.rend()) return {};
    sides.push_back(*of_device);
  }
  return sides;
}

// Intervals that do not touch, over which the same times pass.
std::vector<engine::TaskTime> Union(std::vector<engine::TaskTime> times) {
  std::sort(times.begin(), times.end(),
            [](const engine::TaskTime& a, const engine::TaskTime& b) { return a.start < b.start; });
  std::vector<engine::TaskTime> all;
  for (const engine::TaskTime& time : times) {
    if (all.empty() || time.start > all.back().end) {
      all.push_back(time);
    } else {
      all.back().end = std::max(all.back().end, time.end);
    }
  }
  return all;
}

constexpr size_t kFewestTimes = 4;  // of which quartiles say something

// Returns the median of those that are known.
double MedianFactor(std::vector<double> factors) {
  std::erase(factors, 0.0);
  return engine::Median(std::move(factors));
}

}  // namespace

double FactorOfTimes(const std::vector<double>& seconds) {
  return seconds.size() < kFewestTimes ? 0 : std::min(engine::FactorOfMiddleHalf(seconds), engine::kFactors.most);
}

void Observations::AddRun(const Run& run) {
  const program::Program& program = run.program;
  AddHost(run);
  AddRatios(run);
  const std::vector<Meeting> meetings = program::Meetings(program).all();
  const std::vector<size_t> steps = engine::WithoutTheLongest(run.step_seconds);
  for (size_t step : steps) {
    const std::vector<engine::TaskTime>& times = run.times[step];
    for (const Task& task : program.tasks) {
      if (std::holds_alternative<program::Compute>(task.body)) AddTask(program, task, times[task.id.value]);
    }
    for (const Meeting& meeting : meetings) AddMeeting(program, meeting, times);
    AddGaps(program, times);
  }
  AddSkew(program, meetings, run.times, steps);
}
void Observations::AddOverlapped(const Run& run) {
  AddHost(run);
  const std::vector<Meeting> meetings = program::Meetings(run.program).all();
  for (size_t step : engine::WithoutTheLongest(run.step_seconds)) {
    AddGaps(run.program, run.times[step]);
    AddOverlaps(run.program, meetings, run.times[step]);
  }
}
void Observations::AddTransfer(const TransferTime& t) { transfers_[{t.operation, t.members}][t.bytes].push_back(t.seconds); }

HostFit Observations::host() const { return FitHostTerms(hosts_); }
double Observations::launch_sec() const { return std::max(0.0, engine::Median(gaps_)); }
double Observations::launch_within() const { return FactorOfTimes(gaps_); }
double Observations::skew() const {
  double way_sec = 0, waited_sec = 0;
  for (const Waits& of_run : waits_) way_sec += of_run.way_sec, waited_sec += of_run.waited_sec;
  return way_sec > 0 ? std::max(0.0, waited_sec / way_sec) : 0;
}
double Observations::skew_within() const {
  std::vector<double> skews;
  for (const Waits& of_run : waits_) skews.push_back(of_run.waited_sec / of_run.way_sec);
  return FactorOfTimes(skews);
}
double Observations::handoff_sec() const { return std::max(0.0, engine::Mean(handoffs_) - launch_sec()); }
double Observations::handoff_within() const { return FactorOfTimes(handoffs_); }

// What an op takes alone is the time that it had for itself and what it did of its work beside transfers.
std::optional<double> Observations::overlap_slowdown() const {
  double common_sec = 0, done_sec = 0;
  const std::vector<double> slowness = Slowness();
  for (const auto& [key, runs] : beside_) {
    const auto alone = tasks_.find(key);
    if (alone == tasks_.end()) continue;
    const double alone_sec = engine::Mean(SecondsOnTheFastest(alone->second, slowness));
    for (const Beside& run : runs) {
      common_sec += run.common_sec / SlownessOf(run.device, slowness);
      done_sec += alone_sec - (run.seconds - run.common_sec) / SlownessOf(run.device, slowness);
    }
  }
  if (done_sec <= 0) return std::nullopt;
  return std::clamp(common_sec / done_sec - 1, engine::kPartsOfCompute.least, engine::kPartsOfCompute.most);
}

std::vector<double> Observations::Slowness() const {
  std::vector<double> slowness = {1};
  for (const auto& [device, runs] : ratios_) {
    std::vector<double> medians;
    bool is_slower = true, is_faster = true;
    for (const Ratios& of_run : runs) {
      medians.push_back(of_run.median);
      is_slower = is_slower && of_run.lower_quartile > 1;
      is_faster = is_faster && of_run.upper_quartile < 1;
    }
    slowness.resize(device + 1, 1);
    if (is_slower || is_faster) slowness[device] = engine::Median(std::move(medians));
  }
  const double least = *std::min_element(slowness.begin(), slowness.end());
  for (double& of_device : slowness) of_device = std::min(of_device / least, engine::kFactors.most);
  return slowness;
}

std::vector<double> Observations::SecondsOnTheFastest(const Seen& seen, const std::vector<double>& slowness) {
  std::vector<double> seconds;
  for (const DeviceSeconds& time : seen.times) seconds.push_back(time.seconds / SlownessOf(time.device, slowness));
  return seconds;
}

std::vector<OpRate> Observations::Rates() const {
  std::map<std::string, OpRate> ops;
  std::map<std::string, std::vector<double>> factors;
  const std::vector<double> slowness = Slowness();
  for (const auto& [key, seen] : tasks_) {
    const auto& [op, devices, n, c, k, r, p, groups] = key;
    OpRate& rate = ops[op];
    rate.op = op;
    rate.unit = seen.flops > 0 ? OpRate::Unit::kFlops : OpRate::Unit::kBytes;
    rate.origin = Origin::kMeasured;
    rate.source = "calibrate";
    const double work = seen.flops > 0 ? seen.flops : seen.bytes;
    if (work <= 0) continue;
    const std::vector<double> seconds = SecondsOnTheFastest(seen, slowness);
    rate.points.push_back({.shape = {n, c, k, r, p, groups}, .devices = devices, .rate = work / engine::Mean(seconds)});
    factors[op].push_back(FactorOfTimes(seconds));
  }
  std::vector<OpRate> rates;
  for (auto& [op, rate] : ops) {
    if (rate.points.empty()) continue;
    rate.within = MedianFactor(factors[op]);
    rates.push_back(std::move(rate));
  }
  return rates;
}

std::vector<engine::MeasuredTransfer> Observations::Transfers() const {
  std::vector<engine::MeasuredTransfer> all;
  for (const auto& [key, by_bytes] : transfers_) {
    engine::MeasuredTransfer transfer{
        .operation = key.first, .members = key.second, .points = {}, .origin = Origin::kMeasured, .source = "calibrate"};
    std::vector<double> factors;
    for (const auto& [bytes, seconds] : by_bytes) {
      transfer.points.emplace_back(bytes, engine::Mean(seconds));
      factors.push_back(FactorOfTimes(seconds));
    }
    transfer.within = MedianFactor(std::move(factors));
    all.push_back(std::move(transfer));
  }
  return all;
}

Observations::Key Observations::KeyOf(const program::Program& program, const Task& task) {
  const engine::OpShape s = engine::ShapeOf(task);
  return {program::Name(task), program.device_count, s.n, s.c, s.k, s.r, s.p, s.groups};
}

void Observations::AddHost(const Run& run) {
  const program::Program& program = run.program;
  hosts_.push_back({.devices = static_cast<double>(program.device_count),
                    .images = engine::ImagesOf(program),
                    .tasks = static_cast<double>(program.tasks.size()),
                    .seconds = engine::Median({run.host_seconds.begin(), run.host_seconds.end()})});
}

// By device, its computations and what device 0 does like them: the i-th of a kind and shape is like the i-th.
std::vector<std::vector<Observations::AlikeTasks>> Observations::AlikeTasksOf(const program::Program& program) {
  std::vector<std::map<Key, std::vector<TaskId>>> computations(program.device_count);
  for (const Task& task : program.tasks) {
    if (task.lane != program::Lane::kCompute || !std::holds_alternative<program::Compute>(task.body)) continue;
    computations[task.device][KeyOf(program, task)].push_back(task.id);
  }
  std::vector<std::vector<AlikeTasks>> alike(program.device_count);
  for (int d = 1; d < program.device_count; ++d) {
    for (const auto& [key, own] : computations[d]) {
      const std::vector<TaskId>& first = computations[0][key];
      for (size_t i = 0; i < std::min(own.size(), first.size()); ++i) alike[d].push_back({own[i], first[i]});
    }
  }
  return alike;
}

void Observations::AddRatios(const Run& run) {
  const std::vector<std::vector<AlikeTasks>> alike = AlikeTasksOf(run.program);
  for (int d = 1; d < run.program.device_count; ++d) {
    std::vector<double> ratios;
    for (const std::vector<engine::TaskTime>& times : run.times) {
      absl::Duration own, first;
      for (const AlikeTasks& tasks : alike[d]) {
        own += times[tasks.own.value].end - times[tasks.own.value].start;
        first += times[tasks.first.value].end - times[tasks.first.value].start;
      }
      if (std::min(own, first) > absl::ZeroDuration()) ratios.push_back(absl::FDivDuration(own, first));
    }
    if (!ratios.empty())
      ratios_[d].push_back({engine::Quantile(ratios, 0.25), engine::Median(ratios), engine::Quantile(ratios, 0.75)});
  }
}

// A transfer runs from when its last side is there.
void Observations::AddOverlaps(const program::Program& program, const std::vector<Meeting>& meetings,
                               const std::vector<engine::TaskTime>& times) {
  std::vector<std::vector<engine::TaskTime>> transfers(program.device_count);
  for (const Meeting& meeting : meetings) {
    const absl::Duration begin = BeginOf(meeting, times);
    for (TaskId side : meeting.sides) {
      transfers[program.task(side).device].push_back({begin, std::max(begin, times[side.value].end)});
    }
  }
  for (std::vector<engine::TaskTime>& of_device : transfers) of_device = Union(std::move(of_device));
  for (const Task& task : program.tasks) {
    if (task.lane != program::Lane::kCompute || !std::holds_alternative<program::Compute>(task.body)) continue;
    const engine::TaskTime& time = times[task.id.value];
    absl::Duration common;
    for (const engine::TaskTime& transfer : transfers[task.device]) {
      common += std::max(absl::ZeroDuration(), std::min(time.end, transfer.end) - std::max(time.start, transfer.start));
    }
    if (common == absl::ZeroDuration()) continue;
    beside_[KeyOf(program, task)].push_back(
        {task.device, absl::ToDoubleSeconds(time.end - time.start), absl::ToDoubleSeconds(common)});
  }
}

void Observations::AddTask(const program::Program& program, const Task& task, const engine::TaskTime& time) {
  Seen& seen = tasks_[KeyOf(program, task)];
  // An op that does little for each byte is known by its bytes.
  const bool by_flops = program::IsTimedByFlops(program::CostClassOf(std::get<program::Compute>(task.body).op));
  seen.flops = by_flops ? static_cast<double>(task.work.flops) : 0;
  seen.bytes = static_cast<double>(task.work.bytes_moved());
  seen.times.push_back({task.device, std::max(1e-9, absl::ToDoubleSeconds(time.end - time.start))});
}

// Adds the skew of two devices: by how much the slower one takes longer from meeting to meeting than the one that is slower
// on the average, E[max] − max E, over that time.
void Observations::AddSkew(const program::Program& program, const std::vector<Meeting>& meetings,
                           absl::Span<const std::vector<engine::TaskTime>> all_times, absl::Span<const size_t> steps) {
  Waits waits;
  for (size_t m = 1; m < meetings.size(); ++m) {
    const Meeting &before = meetings[m - 1], &meeting = meetings[m];
    const std::vector<TaskId> left = SidesBefore(program, meeting, before);
    if (left.empty()) continue;
    std::vector<std::vector<double>> ways(meeting.sides.size());
    std::vector<double> longest;
    for (size_t step : steps) {
      const std::vector<engine::TaskTime>& times = all_times[step];
      longest.push_back(0);
      for (size_t s = 0; s < ways.size(); ++s) {
        ways[s].push_back(absl::ToDoubleSeconds(times[meeting.sides[s].value].start - times[left[s].value].end));
        longest.back() = std::max(longest.back(), ways[s].back());
      }
    }
    double way = 0;
    for (const std::vector<double>& of_side : ways) way = std::max(way, engine::Mean(of_side));
    waits.way_sec += way;
    const double as_two = engine::MeanOfLargest(2) / engine::MeanOfLargest(static_cast<int>(ways.size()));
    waits.waited_sec += as_two * (engine::Mean(longest) - way);
  }
  if (waits.way_sec > 0) waits_.push_back(waits);
}

void Observations::AddMeeting(const program::Program& program, const Meeting& meeting,
                              const std::vector<engine::TaskTime>& times) {
  double bytes = 0;
  for (TaskId side : meeting.sides) bytes = std::max(bytes, engine::OperandBytes(program, program.task(side)));
  AddTransfer({program::Name(program.task(meeting.sides[0])), static_cast<int>(meeting.sides.size()), bytes,
               std::max(1e-9, absl::ToDoubleSeconds(MeanEnd(meeting, times) - BeginOf(meeting, times)))});
}

// Adds the gap between each task of the compute lane and what it followed: the one before it, or the last that it waited
// for.
void Observations::AddGaps(const program::Program& program, const std::vector<engine::TaskTime>& times) {
  for (int d = 0; d < program.device_count; ++d) {
    const std::vector<program::TaskId> order = program::LaneOrder(program, d, program::Lane::kCompute);
    for (size_t i = 1; i < order.size(); ++i) {
      const Task &before = program.task(order[i - 1]), &task = program.task(order[i]);
      absl::Duration last = times[before.id.value].end;
      bool waited = false;
      for (program::TaskId wait : task.waits) {
        if (times[wait.value].end > last) last = times[wait.value].end, waited = true;
      }
      if (!waited && !task.waits.empty()) continue;
      (waited ? handoffs_ : gaps_).push_back(absl::ToDoubleSeconds(times[task.id.value].start - last));
    }
  }
}

}  // namespace colonnade::tools
