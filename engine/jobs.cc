#include "engine/jobs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/alike_flows.h"
#include "engine/cost_model.h"
#include "engine/transfer_phases.h"
#include "program/meetings.h"

namespace colonnade::engine {
namespace {

using program::Meeting;
using program::Program;
using program::Task;
using program::TaskId;
using Devices = program::Representatives::Devices;

// By device; empty where all are alike.
std::vector<double> SlownessByDevice(const Machine& machine) {
  if (machine.slower.empty()) return {};
  std::vector<double> slowness(machine.device_count(), 1);
  for (const SlowerDevice& slower : machine.slower) {
    const auto at = std::find(machine.devices.begin(), machine.devices.end(), slower.device);
    if (at != machine.devices.end()) slowness[at - machine.devices.begin()] = slower.factor;
  }
  return slowness;
}

class JobMaker {
 public:
  // `representatives`: null where each device stands for itself.
  JobMaker(const Program& program, const program::Representatives* representatives, const Machine& machine,
           const Routes& routes)
      : program_(program),
        representatives_(representatives),
        machine_(machine),
        routes_(routes),
        cost_(machine, program.device_count),
        slowness_(SlownessByDevice(machine)) {}

  Jobs Make() && {
    for (const Task& task : program_.tasks) {
      if (std::holds_alternative<program::Compute>(task.what)) jobs_.all.push_back(Compute(task));
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
      // What is faster than the devices has made all that it may; begun with nothing, it would take cores of the first
      // steps.
      if (seconds < cost_.LeastStepSeconds(program_)) jobs_.batches = kBatchesAhead;
    }
    jobs_.host = static_cast<int>(jobs_.all.size());
    jobs_.all.push_back({.fixed_sec = HostSeconds(machine_, program_.device_count, images, TaskCount())});
  }
  // Of all devices.
  double TaskCount() const {
    if (representatives_ == nullptr) return static_cast<double>(program_.tasks.size());
    double count = 0;
    for (const Task& task : program_.tasks) {
      const bool computes = std::holds_alternative<program::Compute>(task.what);
      count += static_cast<double>(computes ? DoneBy(task).size() : representatives_->stands_for[task.device].size());
    }
    return count;
  }

  // Of each set of flows, what all jobs have in common that start it.
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
  // Of all devices that take part in a job, those that do not stand for themselves among them; ascending.
  std::vector<int> LanesOf(const Job& job) {
    if (job.tasks.empty()) return {};
    const auto lane_of = [](int device, program::Lane lane) {
      return device * program::kLaneCount + static_cast<int>(lane);
    };
    std::vector<int> lanes;
    if (representatives_ == nullptr) {
      for (int id : job.tasks) lanes.push_back(lane_of(program_.tasks[id].device, program_.tasks[id].lane));
      std::sort(lanes.begin(), lanes.end());
      return lanes;
    }
    const Task& first = program_.tasks[job.tasks[0]];  // the others are on this lane, too
    for (int device : TakingPartIn(first)) lanes.push_back(lane_of(device, first.lane));
    return lanes;
  }
  const Devices& TakingPartIn(const Task& task) {
    Devices own = {task.device};
    if (const auto* exchange = std::get_if<program::Exchange>(&task.what)) own = InMemberOrder(task.device, exchange->peer);
    if (const auto* collective = std::get_if<program::Collective>(&task.what)) own = program_.groups[collective->group];
    const auto [known, is_new] = taking_part_.try_emplace(own);
    if (!is_new) return known->second;
    if (own.size() == 1) return known->second = representatives_->stands_for[task.device];
    for (const Devices& group : MeetingsLike(own)) known->second.insert(known->second.end(), group.begin(), group.end());
    std::sort(known->second.begin(), known->second.end());
    return known->second;
  }
  // The devices that do what a task does, its own first: those for which its device stands. Metrics are stored by one.
  absl::Span<const int> DoneBy(const Task& task) const {
    if (representatives_ == nullptr || StoresMetrics(task)) return absl::MakeConstSpan(&task.device, 1);
    return representatives_->stands_for[task.device];
  }
  bool StoresMetrics(const Task& task) const {
    const auto* store = std::get_if<program::Store>(&std::get<program::Compute>(task.what).op);
    return store != nullptr && program_.outputs[store->output].kind == program::Output::Kind::kMetrics;
  }
  // `devices` must outlive the result.
  absl::Span<const Devices> MeetingsLike(const Devices& devices) const {
    if (representatives_ == nullptr) return absl::MakeConstSpan(&devices, 1);
    return representatives_->alike.at(devices);
  }

  // The devices of an exchange, as meetings that are alike have them.
  Devices InMemberOrder(int device, int peer) const {
    if (representatives_ == nullptr || representatives_->alike.contains({device, peer})) return {device, peer};
    return {peer, device};
  }

  Job Compute(const Task& task) {
    Job job{.tasks = {task.id.value}};
    const program::Op& op = std::get<program::Compute>(task.what).op;
    const bool load = std::holds_alternative<program::Load>(op), store = std::holds_alternative<program::Store>(op);
    const bool has_host = routes_.FromHost(task.device) != nullptr;
    if (load) job.kind = Job::Kind::kLoad;
    if ((load || store) && has_host) {
      job.fixed_sec = machine_.launch_sec.value;
      job.cores = static_cast<double>(DoneBy(task).size());
      job.legs = {HostLeg(DoneBy(task), load)};
      job.legs[0].bytes = static_cast<double>(load ? task.work.bytes_written : task.work.bytes_read);
      return job;
    }
    job.fixed_sec = SecondsOf(task) * SlownessOf(DoneBy(task));
    if (task.lane == program::Lane::kCompute) {
      if (!load && !store) job.kind = Job::Kind::kCompute;
      job.cores = std::max(1.0, std::floor(machine_.cores.value / program_.device_count));
    }
    job.cores *= static_cast<double>(DoneBy(task).size());
    return job;
  }

  // Of the slowest of these: all wait for it where they meet.
  double SlownessOf(absl::Span<const int> devices) const {
    double most = 1;
    for (size_t d = 0; d < devices.size() && !slowness_.empty(); ++d) most = std::max(most, slowness_[devices[d]]);
    return most;
  }

  // Between the host and each of these.
  Leg HostLeg(absl::Span<const int> devices, bool from_host) {
    const auto [known, is_new] = host_legs_.try_emplace({Devices(devices.begin(), devices.end()), from_host});
    if (!is_new) return known->second;
    std::vector<FlowOnRoute> flows;
    for (int device : devices) {
      const Route& route = *(from_host ? routes_.FromHost(device) : routes_.ToHost(device));
      flows.push_back(FlowOn(route, 1));
      known->second.fixed_sec = std::max(known->second.fixed_sec, route.latency_sec);
    }
    known->second.flows = AddFlows(std::move(flows));
    return known->second;
  }

  static FlowOnRoute FlowOn(const Route& route, double bytes) {
    FlowOnRoute flow{.uses = {}, .engines = route.engines, .most = route.bytes_per_sec, .bytes = bytes};
    for (int resource : route.resources) flow.uses.push_back({resource});
    return flow;
  }
  int AddFlows(std::vector<FlowOnRoute> flows) {
    jobs_.flows.push_back({.flows = std::move(flows), .lanes = {}});
    return static_cast<int>(jobs_.flows.size()) - 1;
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

  Job ExchangeJob(const Meeting& meeting) {
    const Task& first = program_.task(meeting.sides[0]);
    const auto& exchange = std::get<program::Exchange>(first.what);
    const Devices devices = InMemberOrder(first.device, exchange.peer);
    const absl::Span<const Devices> alike = MeetingsLike(devices);
    // What the first device sends, and what the other does. Of a side that is left out the one that is there tells.
    double sent[2] = {0, 0};
    for (TaskId id : meeting.sides) {
      const Task& side = program_.task(id);
      const auto& what = std::get<program::Exchange>(side.what);
      const int member = side.device == devices[0] ? 0 : 1;
      if (what.sends) sent[member] = static_cast<double>(side.work.bytes_sent);
      if (what.receives && meeting.sides.size() == 1) sent[1 - member] = static_cast<double>(side.work.bytes_written);
    }
    const double most = std::max(sent[0], sent[1]);
    Job job = JobOf(meeting, alike);
    if (TakesMeasuredTime("exchange", 2, most, job) || most == 0) return job;
    const auto [known, is_new] = exchange_legs_.try_emplace({devices, sent[0] / most, sent[1] / most});
    if (is_new) {
      Phase phase;
      for (const Devices& pair : alike) {
        if (sent[0] > 0) phase.flows.push_back({pair[0], pair[1], sent[0] / most});
        if (sent[1] > 0) phase.flows.push_back({pair[1], pair[0], sent[1] / most});
      }
      known->second = LegsOf({phase});
    }
    AddLegs(known->second, most, job);
    return job;
  }

  Job CollectiveJob(const Meeting& meeting) {
    const Task& first = program_.task(meeting.sides[0]);
    const auto& collective = std::get<program::Collective>(first.what);
    const double bytes = OperandBytes(program_, first);
    const Devices& group = program_.groups[collective.group];
    const absl::Span<const Devices> alike = MeetingsLike(group);
    Job job = JobOf(meeting, alike);
    if (TakesMeasuredTime(program::Name(collective.kind), static_cast<int>(group.size()), bytes, job)) return job;
    const auto [ways, is_new] = ways_.try_emplace({collective.kind, collective.group, collective.root});
    if (is_new) ways->second = cost_.WaysOf(routes_, collective.kind, group, collective.root);
    AddLegs(LegsOf(collective, CostModel::FastestOf(ways->second, bytes), alike), bytes, job);
    return job;
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

  // A leg for one byte, and its sums.
  struct LegOfAByte {
    Leg leg;
    double summed_sec = 0;  // seconds for each byte, before the flows
    // Of what is staged in pieces, for each kind of flow: what its first half takes for each byte, and for a piece.
    struct FirstPiece {
      double sec_per_byte = 0, most_sec = 0;
      bool operator==(const FirstPiece&) const = default;
    };
    std::vector<FirstPiece> first_pieces = {};
    double SecondsOfFirstPiece(double bytes) const {
      double longest = 0;
      for (const FirstPiece& of : first_pieces) longest = std::max(longest, std::min(of.sec_per_byte * bytes, of.most_sec));
      return longest;
    }
  };
  using LegsOfAByte = std::vector<LegOfAByte>;

  static void AddLegs(const LegsOfAByte& legs, double bytes, Job& job) {
    for (const LegOfAByte& of_a_byte : legs) {
      Leg& leg = job.legs.emplace_back(of_a_byte.leg);
      leg.fixed_sec += of_a_byte.summed_sec * bytes + of_a_byte.SecondsOfFirstPiece(bytes);
      leg.bytes = bytes;
    }
  }

  const LegsOfAByte& LegsOf(const program::Collective& collective, const CostModel::Way& way,
                            absl::Span<const Devices> alike) {
    const auto [known, is_new] = collective_legs_.try_emplace(
        {collective.kind, collective.group, collective.root, static_cast<int>(way.algorithm), static_cast<int>(way.form)});
    if (!is_new) return known->second;
    std::vector<Phase> phases;
    for (const Devices& group : alike) {
      const std::vector<Phase> more = cost_.PhasesOfAByte(routes_, collective.kind, way, group, collective.root);
      phases.resize(more.size());
      for (size_t i = 0; i < more.size(); ++i) {
        phases[i].flows.insert(phases[i].flows.end(), more[i].flows.begin(), more[i].flows.end());
        phases[i].hops = more[i].hops;
        phases[i].summed_bytes = more[i].summed_bytes;
      }
    }
    return known->second = LegsOf(phases);
  }

  // A phase is a leg, or two where its flows pass through the host, and one for what is summed after it.
  LegsOfAByte LegsOf(const std::vector<Phase>& phases) {
    LegsOfAByte legs;
    for (const Phase& phase : phases) {
      Leg first, second;
      std::vector<LegOfAByte::FirstPiece> pieces;
      std::vector<FlowOnRoute> first_flows, second_flows;
      for (const Flow& flow : phase.flows) {
        const std::vector<Route> route = routes_.Between(flow.from, flow.to);
        first_flows.push_back(FlowOn(route[0], flow.bytes));
        first_flows.back().most = std::min(first_flows.back().most, flow.most);
        first.fixed_sec = std::max(first.fixed_sec, route[0].latency_sec * phase.hops);
        if (const double piece = route[0].piece_bytes, rate = route[0].piece_bytes_per_sec; piece > 0) {
          const LegOfAByte::FirstPiece first_piece{flow.bytes / rate, piece / rate};
          if (std::find(pieces.begin(), pieces.end(), first_piece) == pieces.end()) pieces.push_back(first_piece);
        }
        if (route.size() == 1) continue;
        second_flows.push_back(FlowOn(route[1], flow.bytes));
        second.fixed_sec = std::max(second.fixed_sec, route[1].latency_sec * phase.hops);
      }
      first.flows = AddFlows(std::move(first_flows));
      legs.push_back({.leg = first, .first_pieces = std::move(pieces)});
      if (!second_flows.empty()) {
        second.flows = AddFlows(std::move(second_flows));
        legs.push_back({second});
      }
      if (phase.summed_bytes > 0) legs.push_back({.summed_sec = cost_.MemorySeconds(3 * phase.summed_bytes)});
    }
    return legs;
  }

  const Program& program_;
  const program::Representatives* const representatives_;
  const Machine& machine_;
  const Routes& routes_;
  const CostModel cost_;
  const std::vector<double> slowness_;  // by device; empty where all are alike
  Jobs jobs_;
  const Task* last_ = nullptr;  // of which seconds_ is the cost
  double seconds_ = 0;
  // What was worked out before. Groups by their index.
  absl::flat_hash_map<Devices, Devices> taking_part_;  // by the devices of a meeting, or the one of a computation
  absl::flat_hash_map<std::pair<Devices, bool>, Leg> host_legs_;
  absl::flat_hash_map<std::tuple<Devices, double, double>, LegsOfAByte> exchange_legs_;
  absl::flat_hash_map<std::tuple<program::CollectiveKind, int, int>, std::vector<CostModel::Way>> ways_;
  absl::flat_hash_map<std::tuple<program::CollectiveKind, int, int, int, int>, LegsOfAByte> collective_legs_;
};

}  // namespace

Jobs JobsOf(const Program& program, const Machine& machine, const Routes& routes) {
  return JobMaker(program, nullptr, machine, routes).Make();
}

Jobs JobsOf(const program::Representatives& representatives, const Machine& machine, const Routes& routes) {
  return JobMaker(representatives.program, &representatives, machine, routes).Make();
}

}  // namespace colonnade::engine
