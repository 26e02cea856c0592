#include "cli/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/machines.h"
#include "cli/measure.h"
#include "cli/session.h"
#include "cpu/backend.h"
#include "engine/cost_model.h"
#include "engine/io/file.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/status_macros.h"

namespace colonnade::cli {
namespace {

using engine::Machine;
using engine::OpRate;
using engine::Origin;
using program::Task;

constexpr int kSlices = 5;
constexpr absl::Duration kSliceTime = absl::Milliseconds(100);
constexpr int kSweepRepeats = 9;
constexpr int64_t kSweepBytes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Everything that was seen, to be boiled down.
class Observations {
 public:
  void AddRun(const StepMeter& run) {
    const program::Program& program = run.program();
    hosts_.push_back(Median(run.host_seconds()) / program.device_count);
    const std::vector<Sides> meetings = MeetingsOf(program);
    for (const std::vector<engine::TaskTime>& times : run.times()) {
      for (const Task& task : program.tasks) {
        if (std::holds_alternative<program::Compute>(task.what)) AddTask(program, task, times[task.id.value]);
      }
      for (const Sides& sides : meetings) AddMeeting(program, sides, times);
      AddGaps(program, times);
    }
    AddSkew(meetings, run.times());
  }
  void AddHandoffs(const StepMeter& run) {
    for (const std::vector<engine::TaskTime>& times : run.times()) AddGaps(run.program(), times);
  }
  void AddTransfer(const TransferTime& t) { transfers_[{t.what, t.members}][t.bytes].push_back(t.seconds); }

  double host_sec_per_device() const { return Median(hosts_); }
  double launch_sec() const { return std::max(0.0, Median(gaps_)); }
  double skew() const { return met_sec_ > 0 ? std::max(0.0, waited_sec_ / met_sec_) : 0; }
  double handoff_sec() const { return std::max(0.0, TrimmedMean(handoffs_) - launch_sec()); }

  std::vector<OpRate> Rates() const {
    std::map<std::string, OpRate> ops;
    for (const auto& [key, seen] : tasks_) {
      const auto& [op, devices, n, c, k, r, p, groups] = key;
      OpRate& rate = ops[op];
      rate.op = op;
      rate.unit = seen.flops > 0 ? OpRate::Unit::kFlops : OpRate::Unit::kBytes;
      rate.from = Origin::kMeasured;
      rate.source = "calibrate";
      const double work = seen.flops > 0 ? seen.flops : seen.bytes;
      if (work <= 0) continue;
      rate.points.push_back(
          {.shape = {n, c, k, r, p, groups}, .devices = devices, .rate = work / TrimmedMean(seen.seconds)});
    }
    std::vector<OpRate> rates;
    for (auto& [op, rate] : ops) {
      if (!rate.points.empty()) rates.push_back(std::move(rate));
    }
    return rates;
  }

  std::vector<engine::MeasuredTransfer> Transfers() const {
    std::vector<engine::MeasuredTransfer> all;
    for (const auto& [key, by_bytes] : transfers_) {
      engine::MeasuredTransfer transfer{
          .what = key.first, .members = key.second, .points = {}, .from = Origin::kMeasured, .source = "calibrate"};
      for (const auto& [bytes, seconds] : by_bytes) transfer.points.emplace_back(bytes, TrimmedMean(seconds));
      all.push_back(std::move(transfer));
    }
    return all;
  }

 private:
  struct Seen {
    double flops = 0, bytes = 0;
    std::vector<double> seconds;
  };
  using Key = std::tuple<std::string, int, double, double, double, double, double, double>;

  void AddTask(const program::Program& program, const Task& task, const engine::TaskTime& time) {
    const engine::OpShape s = engine::ShapeOf(task);
    Seen& seen = tasks_[{program::Name(task), program.device_count, s.n, s.c, s.k, s.r, s.p, s.groups}];
    // An op that does little for each byte is known by its bytes.
    const bool dense =
        absl::StrContains(program::Name(task), "conv_") || absl::StrContains(program::Name(task), "fully_connected_");
    seen.flops = dense ? static_cast<double>(task.work.flops) : 0;
    seen.bytes = static_cast<double>(task.work.bytes_read + task.work.bytes_written);
    seen.seconds.push_back(std::max(1e-9, absl::ToDoubleSeconds(time.end - time.start)));
  }

  // The two or more tasks that meet.
  using Sides = std::vector<const Task*>;

  // In the order of the sequence, which is that in which devices come to them.
  static std::vector<Sides> MeetingsOf(const program::Program& program) {
    std::map<std::pair<bool, int>, size_t> index;  // by (is collective, message or instance)
    std::vector<Sides> meetings;
    for (const Task& task : program.tasks) {
      const auto* exchange = std::get_if<program::Exchange>(&task.what);
      const auto* collective = std::get_if<program::Collective>(&task.what);
      if (exchange == nullptr && collective == nullptr) continue;
      const std::pair<bool, int> key = {collective != nullptr, exchange ? exchange->message : collective->instance};
      const auto [at, is_new] = index.emplace(key, meetings.size());
      if (is_new) meetings.emplace_back();
      meetings[at->second].push_back(&task);
    }
    return meetings;
  }

  // What one side comes later on the whole than the side that is later on the average: E[max] − max E, over the way of each
  // from the meeting before.
  void AddSkew(const std::vector<Sides>& meetings, const std::vector<std::vector<engine::TaskTime>>& steps) {
    for (size_t m = 1; m < meetings.size(); ++m) {
      std::vector<std::vector<double>> ways(meetings[m].size());
      std::vector<double> latest;
      for (const std::vector<engine::TaskTime>& times : steps) {
        absl::Duration met = -absl::InfiniteDuration();
        for (const Task* side : meetings[m - 1]) met = std::max(met, times[side->id.value].end);
        latest.push_back(0);
        for (size_t s = 0; s < ways.size(); ++s) {
          ways[s].push_back(std::max(0.0, absl::ToDoubleSeconds(times[meetings[m][s]->id.value].start - met)));
          latest.back() = std::max(latest.back(), ways[s].back());
        }
      }
      double way = 0;
      for (std::vector<double>& of_side : ways) way = std::max(way, TrimmedMean(std::move(of_side)));
      met_sec_ += way;
      waited_sec_ += TrimmedMean(std::move(latest)) - way;
    }
  }

  void AddMeeting(const program::Program& program, const Sides& sides, const std::vector<engine::TaskTime>& times) {
    absl::Duration start = -absl::InfiniteDuration(), end = start;
    double bytes = 0;
    for (const Task* side : sides) {
      start = std::max(start, times[side->id.value].start);
      end = std::max(end, times[side->id.value].end);
    }
    bytes = engine::OperandBytes(program, *sides[0]);
    for (const Task* side : sides) bytes = std::max(bytes, engine::OperandBytes(program, *side));
    AddTransfer({program::Name(*sides[0]), static_cast<int>(sides.size()), bytes,
                 std::max(1e-9, absl::ToDoubleSeconds(end - start))});
  }

  // Between a task of the compute lane and what it followed: the one before it, or the last that it waited for.
  void AddGaps(const program::Program& program, const std::vector<engine::TaskTime>& times) {
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

  std::map<Key, Seen> tasks_;
  std::map<std::pair<std::string, int>, std::map<double, std::vector<double>>> transfers_;  // by bytes
  std::vector<double> gaps_, handoffs_, hosts_;
  double met_sec_ = 0, waited_sec_ = 0;  // on the way between meetings; more, for the slower of those that meet
};

// Devices that are alike, each linked to the node `between`; rates are measured.
Machine Skeleton(int devices, const std::string& kind, const std::string& between) {
  Machine machine;
  machine.name = "local";
  for (int d = 0; d < devices; ++d) {
    machine.devices.push_back(absl::StrCat(kind, d));
    machine.links.push_back({.a = machine.devices.back(), .b = between, .bytes_per_sec = {}, .latency_sec = {}});
  }
  machine.collectives = engine::CollectiveAlgorithm::kDirect;
  return machine;
}

// Rates of the roofline for ops that no case has: the best that was seen.
void FillRoofline(Machine& machine) {
  double flops = 1e9, bytes = 1e9;
  for (const OpRate& op : machine.ops) {
    for (const OpRate::Point& point : op.points) {
      double& best = op.unit == OpRate::Unit::kFlops ? flops : bytes;
      if (op.unit == OpRate::Unit::kFlops || op.op == "sgd_update") best = std::max(best, point.rate);
    }
  }
  machine.flops_per_sec = {flops, Origin::kMeasured, "the fastest kernel seen"};
  machine.memory_bytes_per_sec = {bytes, Origin::kMeasured, "the fastest update seen"};
  double link = 1e9;
  for (const engine::MeasuredTransfer& t : machine.transfers) {
    for (const auto& [size, seconds] : t.points) link = t.what == "exchange" ? std::max(link, size / seconds) : link;
  }
  for (engine::Link& l : machine.links) l.bytes_per_sec = {link, Origin::kMeasured, "the fastest exchange seen"};
}

}  // namespace

class Calibration::Seen : public Observations {};

CalibrationTarget CpuTarget(int devices) {
  Machine machine = Skeleton(devices, "cpu", "memory");
  machine.description = absl::StrFormat("this machine, as %d CPU devices on %d cores", devices, CoreCount());
  machine.cores = {static_cast<double>(CoreCount()), Origin::kMeasured, "cores that the process may use"};
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  machine.memory_bytes = {pages * page / devices, Origin::kMeasured, "memory of the machine, in equal parts"};
  return {.devices = devices,
          .make_backend = [](int of) { return cpu::MakeCpuBackend({.devices = of}); },
          .make_mover = CpuDevices,
          .machine = std::move(machine)};
}

absl::StatusOr<CalibrationTarget> GpuTarget(const Flags& flags) {
  ASSIGN_OR_RETURN(Gpus gpus, FindGpus());
  const int devices = flags.devices > 0 ? flags.devices : gpus.count;
  Machine machine = Skeleton(devices, "gpu", "peers");
  machine.description = absl::StrFormat("this machine, as %d devices on %d of %s; %s, tasks launched one by one", devices,
                                        gpus.count, gpus.name, flags.dtype);
  const int sharing = (devices + gpus.count - 1) / gpus.count;  // of the devices of one GPU
  machine.memory_bytes = {static_cast<double>(gpus.memory_bytes / sharing), Origin::kMeasured,
                          sharing == 1 ? "memory of the GPU" : "memory of the GPU, in equal parts"};
  const BackendMaker make = [flags](int of) { return OpenBackend(flags, of, 1, /*times_tasks=*/true); };
  return CalibrationTarget{
      .devices = devices, .dtype = DTypeOf(flags), .make_backend = make, .make_mover = make, .machine = std::move(machine)};
}

Calibration::Calibration(CalibrationTarget target) : target_(std::move(target)), seen_(std::make_unique<Seen>()) {}
Calibration::~Calibration() = default;

std::vector<CalibrationPlan> CalibrationPlans(int devices) {
  std::vector<CalibrationPlan> plans = {{"single"}};
  for (int d = 2; d <= devices; ++d) {
    for (const char* name : {"data", "model", "owt"}) plans.push_back({name, d});
  }
  if (devices > 1) plans.push_back({"model", devices, /*overlap=*/true});
  return plans;
}

absl::Status Calibration::Load(const layers::LayerGraph& graph, const CalibrationPlan& named,
                               const std::vector<int64_t>& batches) {
  Keep();
  overlap_ = named.overlap;
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend, target_.make_backend(named.devices));
  backend_ = std::move(backend);
  for (int64_t batch : batches) {
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(named.name, graph, {.devices = named.devices, .global_batch = batch});
    if (!plan.ok()) continue;
    plan->overlap = named.overlap;
    ASSIGN_OR_RETURN(std::unique_ptr<StepMeter> meter,
                     StepMeter::Create(graph, *plan, {.global_batch = batch, .dtype = target_.dtype}, backend_));
    loaded_.push_back(std::move(meter));
  }
  return absl::OkStatus();
}

absl::Status Calibration::Run(int index, int steps, absl::Duration time) { return loaded_[index]->Run(steps, time); }

void Calibration::Keep() {
  for (const std::unique_ptr<StepMeter>& meter : loaded_) {
    overlap_ ? seen_->AddHandoffs(*meter) : seen_->AddRun(*meter);
  }
  loaded_.clear();
}

void Calibration::AddTransfers(const std::vector<TransferTime>& transfers) {
  for (const TransferTime& transfer : transfers) seen_->AddTransfer(transfer);
}

absl::Status Calibration::SweepTransfers() {
  for (const std::string& what : TransferNames()) {
    for (int members = 2; members <= target_.devices; ++members) {
      if (what == "channel_slice" || (members > 2 && what == "exchange")) continue;
      for (int64_t bytes : kSweepBytes) {
        ASSIGN_OR_RETURN(TransferTime time, MeasureTransfer(what, members, bytes, kSweepRepeats, target_.make_mover));
        seen_->AddTransfer(time);
      }
    }
  }
  return absl::OkStatus();
}

engine::Machine Calibration::Result() {
  Keep();
  Machine machine = target_.machine;
  machine.ops = seen_->Rates();
  machine.transfers = seen_->Transfers();
  machine.launch_sec = {seen_->launch_sec(), Origin::kMeasured, "median gap between two tasks"};
  machine.handoff_sec = {seen_->handoff_sec(), Origin::kMeasured, "mean gap after a task of another lane, beyond that"};
  machine.skew = {seen_->skew(), Origin::kMeasured,
                  "mean wait for the slower of those that meet, over the way to the meeting"};
  machine.step_sec_per_device = {seen_->host_sec_per_device(), Origin::kMeasured,
                                 "median time to enqueue one device's part of a step"};
  FillRoofline(machine);
  return machine;
}

absl::Status RunCalibrate(const Flags& flags) {
  const bool on_gpus = flags.backend == "cuda";
  if (on_gpus && flags.out.empty()) {
    return absl::FailedPreconditionError(
        "--backend=cuda: expected --out=FILE, found none; the profile named local is the CPU's");
  }
  RETURN_IF_ERROR(CheckBackend(flags));
  const std::string path = flags.out.empty() ? LocalMachinePath() : flags.out;
  std::error_code error;
  if (flags.out.empty()) std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  RETURN_IF_ERROR(engine::CheckWritable(path));
  ASSIGN_OR_RETURN(CalibrationTarget target,
                   on_gpus ? GpuTarget(flags) : CpuTarget(flags.devices > 0 ? flags.devices : CoreCount()));
  const int devices = target.devices;
  std::vector<TransferTime> transfers;
  if (!flags.transfers.empty()) {
    ASSIGN_OR_RETURN(std::string text, engine::ReadFile(flags.transfers));
    absl::StatusOr<std::vector<TransferTime>> read = ReadTransfers(text);
    if (!read.ok()) return absl::Status(read.status().code(), absl::StrCat(flags.transfers, ": ", read.status().message()));
    transfers = *std::move(read);
  }
  const std::vector<std::string> names = flags.model.empty() ? std::vector<std::string>{"lenet", "alexnet2012", "alexnet"}
                                                             : std::vector<std::string>{flags.model};
  // On both sides of the batch that is asked for, in whole parts for every number of devices.
  const int64_t unit = 4 * devices;
  const int64_t below = std::max<int64_t>(flags.batch * 3 / 4 / unit, 1) * unit,
                above = std::max<int64_t>(flags.batch * 3 / 2 / unit, 2) * unit;
  const absl::Time begin = absl::Now();
  Calibration calibration(std::move(target));
  const std::vector<CalibrationPlan> plans = CalibrationPlans(devices);
  size_t done = 0;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(name, {}));
    for (const CalibrationPlan& plan : plans) {
      RETURN_IF_ERROR(calibration.Load(graph, plan, {below, above}));
      for (int slice = 0; slice < kSlices; ++slice) {
        for (int p = 0; p < calibration.loaded(); ++p) {
          RETURN_IF_ERROR(calibration.Run(p, 1, kSliceTime));
        }
      }
      const double part = static_cast<double>(++done) / static_cast<double>(names.size() * plans.size());
      const double elapsed = absl::ToDoubleSeconds(absl::Now() - begin);
      std::fprintf(stderr, "%s\n",
                   absl::StrFormat("calibrate: %s, %s on %d, %.2g plans/s, %.0f s left", name, plan.name, plan.devices,
                                   static_cast<double>(done) / elapsed, elapsed / part - elapsed)
                       .c_str());
    }
  }
  if (flags.transfers.empty()) {
    RETURN_IF_ERROR(calibration.SweepTransfers());
  }
  calibration.AddTransfers(transfers);
  const Machine machine = calibration.Result();
  RETURN_IF_ERROR(engine::ReplaceFile(path, engine::MachineToJson(machine)));
  if (flags.json) {
    PrintJson(
        {{"machine", path}, {"devices", machine.device_count()}, {"seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});
  } else {
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
