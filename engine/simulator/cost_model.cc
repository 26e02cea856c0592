#include "engine/simulator/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "engine/simulator/rings.h"
#include "program/op_traits.h"
#include "program/work.h"

namespace colonnade::engine {
namespace {

using program::Role;
using program::Task;

double Extent(const program::Shape& shape, size_t dim) {
  return dim < shape.size() ? static_cast<double>(std::max<int64_t>(shape[dim], 1)) : 1.0;
}

// The side of a square of as many rows and columns.
double Side(const program::Shape& shape) { return std::sqrt(Extent(shape, 2) * Extent(shape, 3)); }

// Extents of a task's operands, by what they are to its op.
class Operands {
 public:
  Operands(const Task& task, const program::Op& op) : task_(task), op_(op) {}

  const program::Shape& operator[](program::Role role) const {
    return task_.uses[program::OperandOf(op_, task_.uses.size(), role)].region.size;
  }

 private:
  const Task& task_;
  const program::Op& op_;
};

int64_t GroupsOf(const program::Op& op) {
  return std::visit(
      [](const auto& attributes) -> int64_t {
        if constexpr (requires { attributes.groups; }) return std::max<int64_t>(attributes.groups, 1);
        return 1;
      },
      op);
}

OpShape ConvShape(const program::Shape& x, const program::Shape& w, const program::Shape& y, int64_t groups) {
  const double g = static_cast<double>(groups);
  return {.n = Extent(x, 0), .c = Extent(w, 1), .k = Extent(w, 0) / g, .r = Side(w), .p = Side(y), .groups = g};
}

OpShape MatrixShape(const program::Shape& x, const program::Shape& w) {
  return {.n = Extent(x, 0), .c = Extent(w, 1), .k = Extent(w, 0)};
}

OpShape ImageShape(const program::Shape& x) { return {.n = Extent(x, 0), .c = Extent(x, 1), .p = Side(x)}; }

double SquaredDistance(const OpShape& a, const OpShape& b, bool batch_counts) {
  const double ratios[] = {batch_counts ? a.n / b.n : 1.0, a.c / b.c, a.k / b.k, a.r / b.r, a.p / b.p, a.groups / b.groups};
  double sum = 0;
  for (double ratio : ratios) sum += std::log(ratio) * std::log(ratio);
  return sum;
}

// Between the two points around x, linear in the logarithms; beyond the ends the end's value. REQUIRES: x and the points are
// above 0.
double Interpolate(const std::vector<std::pair<double, double>>& points, double x) {
  if (points.empty()) return 1;
  const auto after = std::lower_bound(points.begin(), points.end(), std::pair(x, 0.0));
  if (after == points.begin()) return points.front().second;
  if (after == points.end()) return points.back().second;
  const auto& [x0, y0] = *(after - 1);
  const auto& [x1, y1] = *after;
  return y0 * std::pow(y1 / y0, std::log(x / x0) / std::log(x1 / x0));
}

// A tree scatters and gathers parts as `direct` does.
bool SendsBetweenAll(program::CollectiveKind kind, CollectiveAlgorithm algorithm) {
  const bool is_of_parts = kind == program::CollectiveKind::kAllGather || kind == program::CollectiveKind::kReduceScatter;
  return algorithm == CollectiveAlgorithm::kDirect || (algorithm == CollectiveAlgorithm::kTree && is_of_parts);
}

constexpr double kClearlyLess = 1 - 1e-9;  // more than what roundings make

bool GoesRound(program::CollectiveKind kind) {
  return kind == program::CollectiveKind::kAllReduce || kind == program::CollectiveKind::kReduceScatter ||
         kind == program::CollectiveKind::kAllGather;
}

// Each ring carries an equal part; what goes the same way in several of them is one flow. REQUIRES: GoesRound(kind).
Phase BesideEachOther(program::CollectiveKind kind, const std::vector<std::vector<int>>& rings, double bytes) {
  Phase phase;
  for (const std::vector<int>& ring : rings) {
    const double part = bytes / static_cast<double>(rings.size());
    AddFlowsOf(MakePhases(kind, CollectiveAlgorithm::kRing, ring, part)[0], phase);
  }
  JoinFlows(phase);
  return phase;
}

// What groups of as many members do at once.
Phase AtOnce(const std::vector<Phase>& phases) {
  Phase all = phases[0];
  for (size_t i = 1; i < phases.size(); ++i) AddFlowsOf(phases[i], all);
  return all;
}

// Returns the phases for one byte: to a part for each device of a node, that of each between the nodes, and back, piece by
// piece.
std::vector<Phase> AllReduceInNodes(CollectiveAlgorithm between, const std::vector<std::vector<int>>& nodes) {
  using program::CollectiveKind;
  const double part = 1.0 / static_cast<double>(nodes[0].size());
  std::vector<Phase> scatter, reduce, gather;
  for (const std::vector<int>& node : nodes) {
    scatter.push_back(MakePhases(CollectiveKind::kReduceScatter, CollectiveAlgorithm::kRing, node, 1)[0]);
    gather.push_back(MakePhases(CollectiveKind::kAllGather, CollectiveAlgorithm::kRing, node, part)[0]);
  }
  for (size_t place = 0; place < nodes[0].size(); ++place) {
    std::vector<int> members;
    for (const std::vector<int>& node : nodes) members.push_back(node[place]);
    reduce.push_back(MakePhases(CollectiveKind::kAllReduce, between, members, part)[0]);
  }
  std::vector<Phase> phases = {AtOnce(scatter), AtOnce(reduce), AtOnce(gather)};
  phases[1].in_pieces = phases[2].in_pieces = true;
  return phases;
}

constexpr size_t kMostOnOneSwitch = 128;

// Whether one node joins all of them, by links that are at least half as fast as it adds: others are of another kind.
// `rate` 0: no switch adds.
bool IsOnOneSwitch(const Routes& routes, const std::vector<int>& group, double rate) {
  if (rate == 0 || group.size() < 2 || group.size() > kMostOnOneSwitch) return false;
  const int node = routes.NodeBetween(group[0], group[1]);
  for (int from : group) {
    for (int to : group) {
      if (from != to && (routes.NodeBetween(from, to) != node || routes.BytesPerSec(from, to) < rate / 2)) return false;
    }
  }
  return node != kNoNode;
}

}  // namespace

OpShape ShapeOf(const Task& task) {
  const program::Op& op = std::get<program::Compute>(task.body).op;
  const Operands operands(task, op);
  switch (program::CostClassOf(op)) {
    case program::CostClass::kConvolution:
      return ConvShape(operands[Role::kOutput], operands[Role::kWeight], operands[Role::kOutput], GroupsOf(op));
    case program::CostClass::kMatrixProduct:
      return MatrixShape(operands[Role::kOutput], operands[Role::kWeight]);
    case program::CostClass::kImages:
      return ImageShape(operands[Role::kInput]);
    case program::CostClass::kUpdate:
    case program::CostClass::kBytes:
      break;
  }
  // Ops that stream through memory depend on how much they move alone.
  return {.n = std::max(1.0, static_cast<double>(task.work.bytes_moved()))};
}

double OperandBytes(const program::Program& program, const Task& task) {
  return static_cast<double>(program::BytesOf(program, task.uses[0]));
}

double ImagesOf(const program::Program& program) {
  if (program.inputs.empty() || program.inputs[0].shape.empty()) return 0;
  return static_cast<double>(program.inputs[0].shape[0]);
}

double HostSeconds(const Machine& machine, int devices, double images, double tasks) {
  const int of_host = machine.devices_per_host == 0 ? devices : std::min(machine.devices_per_host, devices);
  const double part = static_cast<double>(of_host) / devices;
  return machine.step_sec.value + machine.step_sec_per_device.value * of_host +
         part * (machine.step_sec_per_image.value * images + machine.step_sec_per_task.value * tasks);
}

const OpRate* CostModel::RateOf(const std::string& op) const {
  const OpRate* others = nullptr;
  for (const OpRate& rate : machine_.ops) {
    if (rate.op == op) return &rate;
    if (rate.op == kAllOtherOps) others = &rate;
  }
  return others;
}

double CostModel::RateAt(const OpRate& op, const OpShape& shape) const {
  // Points of as many devices at work, if there are any; else those of the nearest number.
  int nearest = 0;
  for (const OpRate::Point& point : op.points) {
    if (point.devices == 0) continue;
    if (nearest == 0 || std::abs(point.devices - devices_) < std::abs(nearest - devices_)) nearest = point.devices;
  }
  // If all points are of one batch, or a curve says how the batch matters, the distance ignores the batch.
  const bool batch_counts =
      op.batch_curve.empty() && std::any_of(op.points.begin(), op.points.end(),
                                            [&](const OpRate::Point& p) { return p.shape.n != op.points[0].shape.n; });
  double weights = 0, sum = 0;
  for (const OpRate::Point& point : op.points) {
    if (point.devices != 0 && point.devices != nearest) continue;
    const double distance = SquaredDistance(shape, point.shape, batch_counts);
    if (distance < 1e-12) return point.rate;
    const double weight = 1 / (distance * distance);
    weights += weight;
    sum += weight * std::log(point.rate);
  }
  return std::exp(sum / weights);
}

// The integral over x > 0 of P(largest > x) - P(largest <= -x), by trapezoids.
double MeanOfLargest(int count) {
  constexpr double kStep = 1.0 / 128, kEnd = 9;  // beyond which 4,096 numbers never come
  double sum = 0;
  for (double x = 0; x <= kEnd; x += kStep) {
    const double above = std::erfc(x * std::numbers::sqrt2 / 2) / 2;  // of one number
    const double height = 1 - std::pow(1 - above, count) - std::pow(above, count);
    sum += x == 0 ? height / 2 : height;
  }
  return sum * kStep;
}

double CostModel::LeastStepSeconds(const program::Program& program) const {
  double seconds = 0;
  for (const Task& task : program.tasks) {
    const bool is_of_layer =
        task.provenance.pass == program::Pass::kForward || task.provenance.pass == program::Pass::kBackward;
    const auto* compute = std::get_if<program::Compute>(&task.body);
    if (!is_of_layer || compute == nullptr || task.device != program.tasks[0].device || task.lane != program::Lane::kCompute)
      continue;
    if (std::holds_alternative<program::CheckFinite>(compute->op)) continue;  // one for each bucket
    seconds += Seconds(task);
  }
  return seconds;
}

double CostModel::MemorySeconds(double bytes) const {
  double rate = machine_.memory_bytes_per_sec.value;
  if (machine_.shared_memory_bytes_per_sec.value > 0) {
    rate = std::min(rate, machine_.shared_memory_bytes_per_sec.value / devices_);
  }
  return bytes / rate;
}

double CostModel::Seconds(const Task& task) const {
  const double flops = static_cast<double>(task.work.flops);
  const auto bytes = static_cast<double>(task.work.bytes_moved());
  const OpRate* op = RateOf(program::Name(task));
  const OpShape shape = ShapeOf(task);
  double by_flops = flops / machine_.flops_per_sec.value, by_bytes = MemorySeconds(bytes);
  if (op != nullptr) {
    const bool in_flops = op->unit == OpRate::Unit::kFlops;
    const double rate = RateAt(*op, shape) * Interpolate(op->batch_curve, shape.n);
    // An op's own rate in bytes, or one that was measured, holds its whole time.
    const bool is_own = op->op != kAllOtherOps;
    if (in_flops) {
      by_flops = flops / rate;
      if (is_own && op->origin == Origin::kMeasured) by_bytes = 0;
    } else {
      by_bytes = bytes / rate;
      if (is_own) by_flops = 0;
    }
  }
  return machine_.launch_sec.value + std::max(by_flops, by_bytes) * waiting_;
}

double CostModel::MeasuredTransferSeconds(const std::string& what, int members, double bytes) const {
  for (const MeasuredTransfer& transfer : machine_.transfers) {
    if (transfer.operation != what || transfer.members != members) continue;
    const auto& [largest, seconds] = transfer.points.back();
    return bytes > largest ? seconds * bytes / largest : Interpolate(transfer.points, bytes);
  }
  return -1;
}

void CostModel::AddPhases(const Routes& routes, absl::Span<const Phase> at_once, CollectiveSchedule& schedule) const {
  // Of one leg of all flows: the second begins when the first has ended.
  struct LegLoad {
    double longest = 0;
    absl::flat_hash_map<int, double> resources, engines;  // few, where a group is small and the machine is not
  };
  LegLoad loads[2];
  for (const Phase& phase : at_once) {
    double latency[2] = {};
    for (const Flow& flow : phase.flows) {
      const std::vector<Route> legs = routes.Between(flow.from, flow.to);
      for (size_t i = 0; i < legs.size(); ++i) {
        const Route& leg = legs[i];
        LegLoad& load = loads[i];
        const auto note = [&load](double seconds) { load.longest = std::max(load.longest, seconds); };
        note(flow.bytes / std::min(leg.bytes_per_sec, flow.max_rate));
        for (int r : leg.resources) note((load.resources[r] += flow.bytes) / routes.capacities()[r]);
        for (int e : leg.engines) note(load.engines[e] += flow.bytes / leg.bytes_per_sec);
        latency[i] = std::max(latency[i], leg.latency_sec * phase.hops);
      }
    }
    schedule.latency_sec += latency[0] + latency[1];
    schedule.sec_per_byte += MemorySeconds(3 * phase.summed_bytes);
  }
  schedule.sec_per_byte += loads[0].longest + loads[1].longest;
}

std::vector<Phase> CostModel::PhasesPerByte(const Routes& routes, program::CollectiveKind kind,
                                            const CollectiveSchedule& schedule, std::vector<int> group, int root) const {
  const bool has_root = kind == program::CollectiveKind::kReduce || kind == program::CollectiveKind::kBroadcast;
  if (has_root) std::rotate(group.begin(), group.begin() + root, group.end());
  if (schedule.form == CollectiveSchedule::Form::kSeveralRings)
    return {BesideEachOther(kind, FindRings(routes, group), /*bytes=*/1)};
  if (schedule.form == CollectiveSchedule::Form::kInSwitch)
    return AllReduceInSwitch(group, /*operand_bytes=*/1, machine_.switch_bytes_per_sec.value);
  if (schedule.form == CollectiveSchedule::Form::kInNodes)
    return AllReduceInNodes(schedule.algorithm, NodesOf(routes, group));
  if (schedule.algorithm == CollectiveAlgorithm::kRing)
    group = has_root ? routes.ChainOf(std::move(group)) : routes.RingOf(std::move(group));
  return MakePhases(kind, schedule.algorithm, group, /*operand_bytes=*/1);
}

CostModel::CollectiveSchedule CostModel::Timed(const Routes& routes, program::CollectiveKind kind,
                                               CollectiveSchedule schedule, const std::vector<int>& group, int root) const {
  const std::vector<Phase> phases = PhasesPerByte(routes, kind, schedule, group, root);
  for (absl::Span<const Phase> at_once : PhasesAtOnce(phases)) AddPhases(routes, at_once, schedule);
  return schedule;
}

std::vector<CostModel::CollectiveSchedule> CostModel::SchedulesFor(const Routes& routes, program::CollectiveKind kind,
                                                                   const std::vector<int>& group, int root) const {
  std::vector<CollectiveAlgorithm> algorithms = {machine_.collectives};
  if (machine_.collectives == CollectiveAlgorithm::kFastest) {
    algorithms = {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree, CollectiveAlgorithm::kDirect};
    std::erase_if(algorithms, [&](CollectiveAlgorithm algorithm) {
      return SendsBetweenAll(kind, algorithm) && group.size() > kMostMembersOfDirect;
    });
  }
  std::vector<CollectiveSchedule> schedules;
  for (CollectiveAlgorithm algorithm : algorithms) {
    const CollectiveSchedule schedule = Timed(routes, kind, {.algorithm = algorithm}, group, root);
    schedules.push_back(schedule);
    const bool may_be_several = algorithm == CollectiveAlgorithm::kRing && GoesRound(kind) && group.size() > 2;
    if (!may_be_several || machine_.copy_engines > 0) continue;
    const CollectiveSchedule several =
        Timed(routes, kind, {.algorithm = algorithm, .form = CollectiveSchedule::Form::kSeveralRings}, group, root);
    if (several.sec_per_byte < kClearlyLess * schedule.sec_per_byte) schedules.push_back(several);
  }
  const bool may_choose = machine_.collectives == CollectiveAlgorithm::kFastest && machine_.copy_engines == 0 &&
                          kind == program::CollectiveKind::kAllReduce;
  if (may_choose && IsOnOneSwitch(routes, group, machine_.switch_bytes_per_sec.value)) {
    schedules.push_back(Timed(routes, kind, {.form = CollectiveSchedule::Form::kInSwitch}, group, root));
  }
  if (!may_choose || NodesOf(routes, group).empty()) return schedules;
  for (CollectiveAlgorithm algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree}) {
    schedules.push_back(
        Timed(routes, kind, {.algorithm = algorithm, .form = CollectiveSchedule::Form::kInNodes}, group, root));
  }
  return schedules;
}

const CostModel::CollectiveSchedule& CostModel::FastestOf(const std::vector<CollectiveSchedule>& schedules, double bytes) {
  return *std::min_element(
      schedules.begin(), schedules.end(),
      [&](const CollectiveSchedule& a, const CollectiveSchedule& b) { return a.Seconds(bytes) < b.Seconds(bytes); });
}

double CostModel::CollectiveSeconds(const Routes& routes, program::CollectiveKind kind, int members, double bytes) const {
  if (members < 2) return 0;
  const double measured = MeasuredTransferSeconds(program::Name(kind), members, bytes);
  if (measured >= 0) return measured;
  std::vector<int> devices(std::min(members, machine_.device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  return machine_.launch_sec.value + FastestOf(SchedulesFor(routes, kind, devices, /*root=*/0), bytes).Seconds(bytes);
}

}  // namespace colonnade::engine
