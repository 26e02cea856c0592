#include "engine/simulator/jobs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/simulator/alike_flows.h"
#include "engine/simulator/cost_model.h"
#include "engine/simulator/leg_maker.h"
#include "engine/simulator/represented_devices.h"
#include "engine/simulator/rings.h"
#include "program/meetings.h"

namespace colonnade::engine {
namespace {

using program::Meeting;
using program::Program;
using program::Task;
using program::TaskId;
using Devices = program::RepresentativeProgram::Devices;

class JobMaker {
 public:
  // `representatives`: null where each device stands for itself.
  JobMaker(const Program& program, const program::RepresentativeProgram* representatives, const Machine& machine,
           const Routes& routes)
      : program_(program),
        stands_(program, representatives),
        machine_(machine),
        routes_(routes),
        cost_(machine, program.device_count),
        slowness_(machine.Slowness()),
        legs_(routes, cost_, jobs_.flows) {}

  Jobs Make() && {
    for (const Task& task : program_.tasks) {
      if (std::holds_alternative<program::Compute>(task.body)) jobs_.all.push_back(Compute(task));
    }
    for (const Meeting& meeting : program::Meetings(program_).all()) {
      jobs_.all.push_back(meeting.is_collective ? CollectiveJob(meeting) : ExchangeJob(meeting));
    }
    AddHost();
    FindLanes();
    jobs_.capacities = routes_.capacities();
    if (routes_.engine_count() == 0) JoinAlikeFlows(jobs_.flows, jobs_.capacities);
    return std::move(jobs_);
  }

 private:
  void AddHost() {
    const double images = ImagesOf(program_);
    if (machine_.input_images_per_sec.value > 0 && images > 0) {
      jobs_.input = static_cast<int>(jobs_.all.size());
      const double seconds = images / machine_.input_images_per_sec.value;
      jobs_.all.push_back({.fixed_sec = seconds, .cores = machine_.cores.value});
      // An input that is faster than the devices has made as many batches as it may before the first step. If it began with
      // none, it would take cores from the first steps.
      if (seconds < cost_.LeastStepSeconds(program_)) jobs_.batches = kBatchesAhead;
    }
    jobs_.host = static_cast<int>(jobs_.all.size());
    jobs_.all.push_back({.fixed_sec = HostSeconds(machine_, program_.device_count, images, stands_.TaskCount())});
  }
  // Finds for each set of flows the lanes that all jobs which start it have in common.
  void FindLanes() {
    std::vector<bool> is_known(jobs_.flows.size(), false);
    for (const Job& job : jobs_.all) {
      const std::vector<int> lanes = LanesOf(job);
      for (const Leg& leg : job.legs) {
        if (leg.flows < 0) continue;
        std::vector<int>& common = jobs_.flows[leg.flows].lanes;
        common = is_known[leg.flows] ? InCommon(common, lanes) : lanes;
        is_known[leg.flows] = true;
      }
    }
  }
  // Returns the lanes of all devices that take part in a job, with those that others stand for; ascending.
  std::vector<int> LanesOf(const Job& job) {
    if (job.tasks.empty()) return {};
    const auto lane_of = [](int device, program::Lane lane) {
      return device * program::kLaneCount + static_cast<int>(lane);
    };
    std::vector<int> lanes;
    if (stands_.each_for_itself()) {
      for (int id : job.tasks) lanes.push_back(lane_of(program_.tasks[id].device, program_.tasks[id].lane));
      std::sort(lanes.begin(), lanes.end());
      return lanes;
    }
    const Task& first = program_.tasks[job.tasks[0]];  // the others are on this lane, too: lowering has put them there
    for (int device : stands_.TakingPartIn(first)) lanes.push_back(lane_of(device, first.lane));
    return lanes;
  }

  Job Compute(const Task& task) {
    Job job{.tasks = {task.id.value}};
    const program::Op& op = std::get<program::Compute>(task.body).op;
    const bool load = std::holds_alternative<program::Load>(op), store = std::holds_alternative<program::Store>(op);
    const bool has_host = routes_.FromHost(task.device) != nullptr;
    if (load) job.kind = Job::Kind::kLoad;
    if ((load || store) && has_host) {
      job.fixed_sec = machine_.launch_sec.value;
      job.cores = static_cast<double>(stands_.DoneBy(task).size());
      job.legs = {legs_.HostLeg(stands_.DoneBy(task), load)};
      job.legs[0].bytes = static_cast<double>(load ? task.work.bytes_written : task.work.bytes_read);
      return job;
    }
    job.fixed_sec = SecondsOf(task) * SlownessOf(stands_.DoneBy(task));
    if (task.lane == program::Lane::kCompute) {
      if (!load && !store) job.kind = Job::Kind::kCompute;
      job.cores = std::max(1.0, std::floor(machine_.cores.value / program_.device_count));
    }
    job.cores *= static_cast<double>(stands_.DoneBy(task).size());
    return job;
  }

  // Returns the slowness of the slowest of these: all wait for it where they meet.
  double SlownessOf(absl::Span<const int> devices) const {
    double slowest = 1;
    for (int device : devices) slowest = std::max(slowest, slowness_[device]);
    return slowest;
  }

  // Devices that do alike stand one after the other in the sequence: what costs the same as the task before is not
  // worked out again.
  double SecondsOf(const Task& task) {
    if (last_ == nullptr || !CostsTheSame(task, *last_)) seconds_ = cost_.Seconds(task);
    last_ = &task;
    return seconds_;
  }
  static bool CostsTheSame(const Task& a, const Task& b) {
    return a.body == b.body && a.work == b.work &&
           std::equal(a.uses.begin(), a.uses.end(), b.uses.begin(), b.uses.end(),
                      [](const auto& u, const auto& v) { return u.region.size == v.region.size; });
  }

  Job ExchangeJob(const Meeting& meeting) {
    const Task& first = program_.task(meeting.sides[0]);
    const auto& exchange = std::get<program::Exchange>(first.body);
    const Devices devices = stands_.InMemberOrder(first.device, exchange.peer);
    const absl::Span<const Devices> alike = stands_.MeetingsLike(devices);
    // What the first device sends, and what the second sends. If only one side is in the Program, it says both.
    double sent[2] = {0, 0};
    for (TaskId id : meeting.sides) {
      const Task& side = program_.task(id);
      const auto& what = std::get<program::Exchange>(side.body);
      const int member = side.device == devices[0] ? 0 : 1;
      if (what.sends) sent[member] = static_cast<double>(side.work.bytes_sent);
      if (what.receives && meeting.sides.size() == 1) sent[1 - member] = static_cast<double>(side.work.bytes_written);
    }
    const double larger = std::max(sent[0], sent[1]);
    Job job = JobOf(meeting, alike);
    if (TakesMeasuredTime("exchange", 2, larger, job) || larger == 0) return job;
    AddLegs(legs_.ExchangeLegs(alike, sent[0] / larger, sent[1] / larger), larger, job);
    return job;
  }

  Job CollectiveJob(const Meeting& meeting) {
    const Task& first = program_.task(meeting.sides[0]);
    const auto& collective = std::get<program::Collective>(first.body);
    const double bytes = OperandBytes(program_, first);
    const Devices& group = program_.groups[collective.group];
    const absl::Span<const Devices> alike = stands_.MeetingsLike(group);
    Job job = JobOf(meeting, alike);
    if (TakesMeasuredTime(program::Name(collective.kind), static_cast<int>(group.size()), bytes, job)) return job;
    const auto [schedules, is_new] = schedules_.try_emplace({collective.kind, collective.group, collective.root});
    if (is_new) schedules->second = SchedulesFor(collective, group, alike);
    AddLegs(legs_.CollectiveLegs(collective, CostModel::FastestOf(schedules->second, bytes), alike), bytes, job);
    return job;
  }

  // Returns the schedules that all groups alike can use. Such groups may be spread over nodes differently, so kInNodes is
  // left out unless each of them has nodes.
  std::vector<CostModel::CollectiveSchedule> SchedulesFor(const program::Collective& collective, const Devices& group,
                                                          absl::Span<const Devices> alike) const {
    std::vector<CostModel::CollectiveSchedule> schedules =
        cost_.SchedulesFor(routes_, collective.kind, group, collective.root);
    const auto is_in_nodes = [](const CostModel::CollectiveSchedule& schedule) {
      return schedule.form == CostModel::CollectiveSchedule::Form::kInNodes;
    };
    const auto lacks_nodes = [&](const Devices& other) { return NodesOf(routes_, other).empty(); };
    if (std::any_of(schedules.begin(), schedules.end(), is_in_nodes) &&
        std::any_of(alike.begin(), alike.end(), lacks_nodes)) {
      std::erase_if(schedules, is_in_nodes);
    }
    return schedules;
  }

  Job JobOf(const Meeting& meeting, absl::Span<const Devices> alike) const {
    Job job{.fixed_sec = machine_.launch_sec.value,
            .cores = static_cast<double>(alike.size() * alike[0].size()),
            .kind = Job::Kind::kTransfer};
    for (TaskId side : meeting.sides) job.tasks.push_back(side.value);
    return job;
  }

  // Whether the profile has measured such a transfer as a whole; then the job takes that.
  bool TakesMeasuredTime(const std::string& what, int members, double bytes, Job& job) const {
    const double measured = cost_.MeasuredTransferSeconds(what, members, bytes);
    if (measured >= 0) job.fixed_sec = measured;
    return measured >= 0;
  }

  const Program& program_;
  RepresentedDevices stands_;
  const Machine& machine_;
  const Routes& routes_;
  const CostModel cost_;
  const std::vector<double> slowness_;  // by device
  Jobs jobs_;
  const Task* last_ = nullptr;  // of which seconds_ is the cost
  double seconds_ = 0;
  // By kind, index of the group, and root.
  absl::flat_hash_map<std::tuple<program::CollectiveKind, int, int>, std::vector<CostModel::CollectiveSchedule>> schedules_;
  LegMaker legs_;
};

}  // namespace

Jobs MakeJobs(const Program& program, const Machine& machine, const Routes& routes) {
  return JobMaker(program, nullptr, machine, routes).Make();
}

Jobs MakeJobs(const program::RepresentativeProgram& representatives, const Machine& machine, const Routes& routes) {
  return JobMaker(representatives.program, &representatives, machine, routes).Make();
}

}  // namespace colonnade::engine
