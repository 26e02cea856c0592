#include "cli/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
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
#include "engine/executor.h"
#include "engine/file.h"
#include "models/models.h"
#include "partition/named_plans.h"
#include "program/builder.h"

namespace colonnade::cli {
namespace {

using engine::Machine;
using engine::OpRate;
using engine::Origin;
using program::Task;

constexpr int kSweepRepeats = 9;
constexpr int64_t kSweepBytes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// What a task takes on the whole: devices that meet wait for the slower one, so that long times count, but for the few that
// something else on the machine made.
double TrimmedMean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t kept = std::max<size_t>(1, values.size() - values.size() / 10);
  return std::accumulate(values.begin(), values.begin() + static_cast<int64_t>(kept), 0.0) / static_cast<double>(kept);
}

// Everything that was seen, to be boiled down.
class Observations {
 public:
  void AddRun(const MeasuredRun& run) {
    const program::Program& program = run.program;
    hosts_.push_back(absl::ToDoubleSeconds(run.host) / program.device_count);
    std::map<std::pair<bool, int>, std::vector<const Task*>> meetings;
    for (const Task& task : program.tasks) {
      if (const auto* exchange = std::get_if<program::Exchange>(&task.what))
        meetings[{false, exchange->message}].push_back(&task);
      if (const auto* collective = std::get_if<program::Collective>(&task.what))
        meetings[{true, collective->instance}].push_back(&task);
    }
    for (const std::vector<engine::TaskTime>& times : run.times) {
      for (const Task& task : program.tasks) {
        if (std::holds_alternative<program::Compute>(task.what)) AddTask(program, task, times[task.id.value]);
      }
      for (const auto& [key, sides] : meetings) AddMeeting(program, sides, times);
      AddGaps(program, times, gaps_);
    }
  }
  void AddHandoffs(const MeasuredRun& run) {
    for (const std::vector<engine::TaskTime>& times : run.times) AddGaps(run.program, times, overlapped_gaps_);
  }
  void AddTransfer(const TransferTime& t) { transfers_[{t.what, t.members}][t.bytes].push_back(t.seconds); }

  double host_sec_per_device() const { return Median(hosts_); }
  double launch_sec() const { return std::max(0.0, Median(gaps_)); }
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

  void AddMeeting(const program::Program& program, const std::vector<const Task*>& sides,
                  const std::vector<engine::TaskTime>& times) {
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
  void AddGaps(const program::Program& program, const std::vector<engine::TaskTime>& times, std::vector<double>& gaps) {
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
        (waited ? handoffs_ : gaps).push_back(absl::ToDoubleSeconds(times[task.id.value].start - last));
      }
    }
  }

  std::map<Key, Seen> tasks_;
  std::map<std::pair<std::string, int>, std::map<double, std::vector<double>>> transfers_;  // by bytes
  std::vector<double> gaps_, overlapped_gaps_, handoffs_, hosts_;
};

// Each device sends a pattern of its own; what must be there afterwards is known.
class TransferProgram {
 public:
  static constexpr int64_t kSliceChannels = 32, kSide = 8, kPixels = kSide * kSide;

  static absl::StatusOr<program::Program> Make(const std::string& what, int members, int64_t elements) {
    program::Builder builder("transfer", program::Mode::kTrain, 1, program::DType::kF32, {{"data", members}});
    std::vector<int> devices;
    std::vector<program::Member> sides;
    const auto kind = KindOf(what);
    if (what == "channel_slice") return MakeSlices(std::move(builder), elements);
    if (what != "exchange" && !kind) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "a transfer \"%s\": expected exchange, channel_slice, all_gather, reduce_scatter or all_reduce", what));
    }
    const bool gathers = kind == program::CollectiveKind::kAllGather,
               scatters = kind == program::CollectiveKind::kReduceScatter;
    for (int d = 0; d < members; ++d) {
      const auto persistent = program::Lifetime::kPersistent;
      const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, {elements}, persistent);
      const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32,
                                                    {gathers    ? elements * members
                                                     : scatters ? elements / members
                                                                : elements},
                                                    persistent);
      devices.push_back(d);
      if (what == "exchange" || gathers || scatters) {
        sides.push_back({{builder.Read(x), builder.Write(y)}, {.bytes_sent = elements * 4}});
      } else {
        sides.push_back({{builder.Accumulate(x)}, {.bytes_sent = elements * 4}});
      }
    }
    if (what == "exchange") {
      builder.AddExchange(0, sides[0], 1, sides[1], program::Lane::kComm, {"transfer"});
    } else {
      builder.AddCollective(builder.AddGroup(devices), {.kind = *kind}, std::move(sides), program::Lane::kComm,
                            {"transfer"});
    }
    return std::move(builder).Build();
  }

  // Half the channels of images go to the other half of the peer's: runs of memory with gaps between them on both sides.
  static program::Program MakeSlices(program::Builder builder, int64_t elements) {
    const program::Shape whole = {std::max<int64_t>(elements / (kSliceChannels * kPixels), 1), 2 * kSliceChannels, kSide,
                                  kSide};
    program::Shape half = whole;
    half[1] = kSliceChannels;
    std::vector<program::Member> sides;
    for (int d = 0; d < 2; ++d) {
      const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, whole, program::Lifetime::kPersistent);
      const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32, whole, program::Lifetime::kPersistent);
      sides.push_back({{{x, {{0, 0, 0, 0}, half}, program::Access::kRead},
                        {y, {{0, kSliceChannels, 0, 0}, half}, program::Access::kWrite}},
                       {.bytes_sent = program::ElementCount(half) * 4}});
    }
    builder.AddExchange(0, sides[0], 1, sides[1], program::Lane::kComm, {"transfer"});
    return std::move(builder).Build();
  }

  static std::optional<program::CollectiveKind> KindOf(const std::string& what) {
    for (auto kind : {program::CollectiveKind::kAllGather, program::CollectiveKind::kReduceScatter,
                      program::CollectiveKind::kAllReduce}) {
      if (what == program::Name(kind)) return kind;
    }
    return std::nullopt;
  }

  // x of device d is d + 1 everywhere.
  static absl::Status Check(const std::string& what, int members, const program::Program& program,
                            const engine::LoadedProgram& loaded) {
    const double sum = members * (members + 1) / 2.0;
    for (const program::Buffer& buffer : program.buffers) {
      const bool in_place = what == "all_reduce";
      if (buffer.name != (in_place ? "x" : "y")) continue;
      std::vector<double> values(program::ElementCount(buffer.shape));
      if (absl::Status s = loaded.Read(buffer.id, absl::MakeSpan(values)); !s.ok()) return s;
      for (size_t i = 0; i < values.size(); ++i) {
        double expected = sum;
        if (what == "exchange") expected = 2 - buffer.device;
        if (what == "channel_slice") expected = i / (kSliceChannels * kPixels) % 2 == 1 ? 2 - buffer.device : 0;
        if (what == "all_gather") expected = 1 + static_cast<double>(i * members / values.size());
        if (values[i] != expected) {
          return absl::InternalError(absl::StrFormat("%s between %d devices: element %d of device %d: expected %g, found %g",
                                                     what, members, i, buffer.device, expected, values[i]));
        }
      }
    }
    return absl::OkStatus();
  }
};

Machine Skeleton(int devices) {
  Machine machine;
  machine.name = "local";
  machine.description = absl::StrFormat("this machine, as %d CPU devices on %d cores", devices, CoreCount());
  for (int d = 0; d < devices; ++d) {
    machine.devices.push_back(absl::StrCat("cpu", d));
    machine.links.push_back({.a = machine.devices.back(), .b = "memory", .bytes_per_sec = {}, .latency_sec = {}});
  }
  machine.cores = {static_cast<double>(CoreCount()), Origin::kMeasured, "cores that the process may use"};
  machine.collectives = engine::CollectiveAlgorithm::kDirect;
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  machine.memory_bytes = {pages * page / devices, Origin::kMeasured, "memory of the machine, in equal parts"};
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

absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats) {
  const int64_t elements = std::max<int64_t>(bytes / 4 / members, 1) * members;
  absl::StatusOr<program::Program> program = TransferProgram::Make(what, members, elements);
  if (!program.ok()) return program.status();
  absl::StatusOr<std::unique_ptr<engine::Backend>> backend =
      cpu::MakeCpuBackend({.devices = members, .threads_per_device = 1});
  if (!backend.ok()) return backend.status();
  const engine::HostSlot slots[2] = {};
  absl::StatusOr<std::unique_ptr<engine::LoadedProgram>> loaded = (*backend)->Load(*program, slots);
  if (!loaded.ok()) return loaded.status();
  for (const program::Buffer& buffer : program->buffers) {
    const std::vector<double> pattern(program::ElementCount(buffer.shape), buffer.name == "x" ? buffer.device + 1 : 0);
    if (absl::Status s = (*loaded)->Write(buffer.id, pattern); !s.ok()) return s;
  }
  std::vector<double> seconds;
  for (int step = 0; step < repeats + 1; ++step) {
    for (const Task& task : program->tasks) (*loaded)->Launch(task.id, step);
    if (absl::Status s = (*loaded)->Synchronize(step); !s.ok()) return s;
    if (step == 0) {
      if (absl::Status s = TransferProgram::Check(what, members, *program, **loaded); !s.ok()) return s;
      continue;
    }
    absl::Duration start = -absl::InfiniteDuration(), end = start;
    for (const engine::TaskTime& time : (*loaded)->Times(step)) {
      start = std::max(start, time.start);
      end = std::max(end, time.end);
    }
    seconds.push_back(absl::ToDoubleSeconds(end - start));
  }
  return TransferTime{what, members, static_cast<double>(elements * 4), std::max(1e-9, Median(seconds))};
}

absl::StatusOr<Machine> CalibrateThisMachine(const CalibrationOptions& options) {
  struct Job {
    const layers::LayerGraph* graph;
    int64_t batch;
    std::string plan;
    int devices;
    bool overlap = false;  // for the handoffs between lanes alone: what overlaps is slower than it is by itself
  };
  std::vector<Job> jobs;
  for (const CalibrationCase& c : options.cases) {
    for (int64_t batch : c.batches) {
      jobs.push_back({&c.graph, batch, "single", 1});
      for (int devices = 2; devices <= options.devices; ++devices) {
        for (const char* plan : {"data", "model", "owt"}) jobs.push_back({&c.graph, batch, plan, devices});
      }
    }
    if (options.devices > 1) jobs.push_back({&c.graph, c.batches.front(), "model", options.devices, true});
  }
  Observations seen;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const Job& job = jobs[j];
    absl::StatusOr<partition::Plan> plan =
        partition::NamedPlan(job.plan, *job.graph, {.devices = job.devices, .global_batch = job.batch});
    if (!plan.ok()) continue;  // this network or batch does not split so
    plan->overlap = job.overlap;
    absl::StatusOr<MeasuredRun> run = MeasureSteps(*job.graph, *plan, {.global_batch = job.batch}, options.steps);
    if (!run.ok()) return run.status();
    job.overlap ? seen.AddHandoffs(*run) : seen.AddRun(*run);
    if (options.on_run) options.on_run(static_cast<int>(j) + 1, static_cast<int>(jobs.size()));
  }
  for (int devices = 2; devices <= options.devices; ++devices) {
    for (const char* what : {"exchange", "all_gather", "reduce_scatter", "all_reduce"}) {
      if (std::string(what) == "exchange" && devices > 2) continue;
      for (int64_t bytes : kSweepBytes) {
        absl::StatusOr<TransferTime> time = MeasureTransfer(what, devices, bytes, kSweepRepeats);
        if (!time.ok()) return time.status();
        seen.AddTransfer(*time);
      }
    }
  }
  Machine machine = Skeleton(options.devices);
  machine.ops = seen.Rates();
  machine.transfers = seen.Transfers();
  machine.launch_sec = {seen.launch_sec(), Origin::kMeasured, "median gap between two tasks"};
  machine.handoff_sec = {seen.handoff_sec(), Origin::kMeasured, "mean gap after a task of another lane, beyond that"};
  machine.step_sec_per_device = {seen.host_sec_per_device(), Origin::kMeasured,
                                 "median time to enqueue one device's part of a step"};
  FillRoofline(machine);
  return machine;
}

absl::Status RunCalibrate(const Flags& flags) {
  const std::string path = flags.out.empty() ? LocalMachinePath() : flags.out;
  std::error_code error;
  if (flags.out.empty()) std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (absl::Status s = engine::CheckWritable(path); !s.ok()) return s;
  CalibrationOptions options{.devices = flags.devices > 0 ? flags.devices : CoreCount()};
  std::vector<std::string> names = flags.model.empty() ? std::vector<std::string>{"lenet", "alexnet2012", "alexnet"}
                                                       : std::vector<std::string>{flags.model};
  for (const std::string& name : names) {
    absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(name, {});
    if (!graph.ok()) return graph.status();
    // On both sides of the batch that is asked for, in whole parts for every number of devices.
    const int64_t unit = 4 * options.devices;
    const int64_t below = std::max<int64_t>(flags.batch * 3 / 4 / unit, 1) * unit,
                  above = std::max<int64_t>(flags.batch * 3 / 2 / unit, 2) * unit;
    options.cases.push_back({*std::move(graph), {below, above}});
  }
  const absl::Time begin = absl::Now();
  options.on_run = [&](int done, int all) {
    const absl::Duration left = (absl::Now() - begin) / done * (all - done);
    std::fprintf(
        stderr, "%s\n",
        absl::StrFormat("calibrate: %d of %d Programs, %.0f s left", done, all, absl::ToDoubleSeconds(left)).c_str());
  };
  absl::StatusOr<Machine> machine = CalibrateThisMachine(options);
  if (!machine.ok()) return machine.status();
  if (absl::Status s = engine::ReplaceFile(path, engine::MachineToJson(*machine)); !s.ok()) return s;
  if (flags.json) {
    PrintJson(
        {{"machine", path}, {"devices", machine->device_count()}, {"seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});
  } else {
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace colonnade::cli
