// `bench step`: one training step of a network under a plan, on images without meaning; its roofline, and another program in
// turn with it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "cli/command_line/errors.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/peer.h"
#include "cli/prediction/prediction.h"
#include "cli/session/core_wait_count.h"
#include "cli/session/devices.h"
#include "cli/session/named_files.h"
#include "cli/session/run_json.h"
#include "cli/session/session.h"
#include "engine/io/file.h"
#include "engine/statistics.h"
#include "engine/trace.h"
#include "tools/ceilings.h"
#include "tools/host_memory.h"
#include "tools/measure.h"
#include "tools/roofline.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StepFlags : SessionFlags {
  int64_t steps = 0;     // 0: some
  std::string roofline;  // the file; empty: none
  std::string against;   // a command; empty: none
  int pairs = 5;
  bool json = false;
};

constexpr int kTimedSteps = 20;
constexpr absl::Duration kLeastTime = absl::Seconds(1);

// All tasks of one word, such as conv_forward or all_reduce, in a step.
struct Kind {
  int tasks = 0;
  double seconds = 0;  // of all devices together
  program::Work work;
};

struct StepReport {
  std::string backend;
  int devices = 1;
  double median = 0, tenth = 0, nine_tenths = 0, host = 0;  // seconds
  int steps = 0;
  program::Work work;  // of all devices
  std::map<std::string, Kind> kinds;
  engine::Breakdown times;  // of a step, the mean of devices
  std::vector<engine::DeviceMemory> memory;
  tools::Spent start_up, first_step;
  std::vector<Pair> pairs;                  // of --against
  std::optional<tools::Ceilings> ceilings;  // of --roofline
};

double InSeconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

void AddWork(const program::Work& more, program::Work& sum) {
  sum.flops += more.flops;
  sum.bytes_read += more.bytes_read;
  sum.bytes_written += more.bytes_written;
  sum.bytes_sent += more.bytes_sent;
}

void ReadTasks(const tools::StepMeter& meter, StepReport& report) {
  const program::Program& program = meter.program();
  const auto steps = static_cast<double>(meter.times().size());
  for (const program::Task& task : program.tasks) {
    Kind& kind = report.kinds[program::Name(task)];
    ++kind.tasks;
    AddWork(task.work, kind.work);
    AddWork(task.work, report.work);
    for (const std::vector<engine::TaskTime>& step : meter.times()) {
      kind.seconds += InSeconds(step[task.id.value].end - step[task.id.value].start) / steps;
    }
  }
  const std::vector<engine::Breakdown> devices =
      engine::BreakDown(engine::MakeTrace(program, meter.times()), program.device_count);
  for (const engine::Breakdown& device : devices) {
    report.times.compute += device.compute / program.device_count;
    report.times.exposed_communication += device.exposed_communication / program.device_count;
    report.times.input_wait += device.input_wait / program.device_count;
    report.times.idle += device.idle / program.device_count;
  }
}

absl::StatusOr<std::unique_ptr<tools::StepMeter>> OpenMeter(const StepFlags& flags, const Session& session,
                                                            bool times_tasks) {
  const CountProgress progress("loading");
  const partition::LowerOptions lower = LowerOptionsOf(flags, session, program::Mode::kTrain);
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, session.plan.mesh.device_count(), session.threads_per_device, times_tasks));
  if (backend->name() == "cpu") {
    RETURN_IF_ERROR(FieldAsFlag(tools::CheckHostMemory(session.graph, session.plan, lower), "batch"));
  }
  return tools::StepMeter::Create(session.graph, session.plan, lower, std::move(backend));
}

absl::Status RunSteps(const StepFlags& flags, tools::StepMeter& meter, CoreWaitCount& waits) {
  CountProgress progress("timing:");
  waits.Begin();
  RETURN_IF_ERROR(meter.Run(static_cast<int>(flags.steps > 0 ? flags.steps : kTimedSteps),
                            flags.steps > 0 ? absl::ZeroDuration() : kLeastTime,
                            [&](int64_t done, int64_t all) { progress.Show(done, all, " steps"); }));
  waits.End();
  return absl::OkStatus();
}

double ImagesPerSecond(const PlanFlags& flags, double step_seconds) {
  return static_cast<double>(flags.batch) / step_seconds;
}

absl::StatusOr<std::vector<Pair>> RunPairs(const StepFlags& flags, tools::StepMeter& meter, CoreWaitCount& waits) {
  const auto run = [&]() -> absl::StatusOr<double> {
    const size_t before = meter.step_seconds().size();
    RETURN_IF_ERROR(RunSteps(flags, meter, waits));
    const std::vector<double>& steps = meter.step_seconds();
    return ImagesPerSecond(flags.plan, engine::Median({steps.begin() + static_cast<int64_t>(before), steps.end()}));
  };
  return RunInTurn(run, flags.against, flags.pairs);
}

// By task: its median.
std::vector<double> TaskSeconds(const tools::StepMeter& meter) {
  std::vector<double> medians;
  for (const program::Task& task : meter.program().tasks) {
    std::vector<double> seconds;
    for (const std::vector<engine::TaskTime>& step : meter.times()) {
      seconds.push_back(InSeconds(step[task.id.value].end - step[task.id.value].start));
    }
    medians.push_back(engine::Median(std::move(seconds)));
  }
  return medians;
}

// Ends the meter, whose devices would take the machine's memory and cores from those that are measured.
absl::StatusOr<tools::Ceilings> DrawRoofline(const StepFlags& flags, const Session& session, const std::string& path,
                                             std::unique_ptr<tools::StepMeter> meter) {
  const CountProgress progress("measuring ceilings");
  const program::Program program = meter->program();
  const std::vector<double> seconds = TaskSeconds(*meter);
  meter.reset();
  const int devices = program.device_count;
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend,
                   OpenBackend(flags.backend, devices, session.threads_per_device, /*times_tasks=*/true));
  ASSIGN_OR_RETURN(const tools::Ceilings ceilings, tools::MeasureCeilings(*backend, DTypeOf(flags.backend)));
  const std::string title = absl::StrFormat(
      "%s, batch %d, plan %s on %s, %s", session.graph.name, flags.plan.batch, session.plan.name,
      base::Counted(devices, backend->name() == "cuda" ? "CUDA device" : "CPU device"), DTypeName(flags.backend));
  RETURN_IF_ERROR(engine::ReplaceFile(path, tools::RooflineAsSvg(title, program, seconds, ceilings)));
  return ceilings;
}

absl::StatusOr<StepReport> MeasureStep(const StepFlags& flags, const Session& session) {
  ASSIGN_OR_RETURN(std::unique_ptr<tools::StepMeter> meter, OpenMeter(flags, session, /*times_tasks=*/false));
  std::vector<Pair> pairs;
  CoreWaitCount waits;
  if (flags.against.empty()) {
    RETURN_IF_ERROR(RunSteps(flags, *meter, waits));
  } else {
    ASSIGN_OR_RETURN(pairs, RunPairs(flags, *meter, waits));
  }
  for (const std::string& note : meter->Notes()) Warn(note);
  if (const std::string busy = BusyWarning(waits.share()); !busy.empty()) Warn(busy);
  const std::vector<double>& steps = meter->step_seconds();
  StepReport report{.backend = meter->backend_name(),
                    .devices = meter->program().device_count,
                    .median = engine::Median(steps),
                    .tenth = engine::Quantile(steps, 0.1),
                    .nine_tenths = engine::Quantile(steps, 0.9),
                    .host = engine::Median(meter->host_seconds()),
                    .steps = static_cast<int>(steps.size()),
                    .memory = meter->Memory(),
                    .start_up = meter->start_up(),
                    .first_step = meter->first_step(),
                    .pairs = std::move(pairs)};
  if (report.backend == "cuda") {  // where timing tasks makes a step slower
    meter.reset();
    ASSIGN_OR_RETURN(meter, OpenMeter(flags, session, /*times_tasks=*/true));
    RETURN_IF_ERROR(RunSteps(flags, *meter, waits));
  }
  ReadTasks(*meter, report);
  if (flags.roofline.empty()) return report;
  ASSIGN_OR_RETURN(report.ceilings, DrawRoofline(flags, session, flags.roofline, std::move(meter)));
  return report;
}

// The largest first.
std::vector<std::pair<std::string, Kind>> SortedKinds(const StepReport& report) {
  std::vector<std::pair<std::string, Kind>> kinds(report.kinds.begin(), report.kinds.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return kinds;
}

double Total(const engine::Breakdown& times) {
  return InSeconds(times.compute + times.exposed_communication + times.input_wait + times.idle);
}

int64_t PeakBytes(const StepReport& report) {
  int64_t most = 0;
  for (const engine::DeviceMemory& device : report.memory) most = std::max(most, device.total_bytes());
  return most;
}

Json SpentJson(const tools::Spent& spent) {
  return {{"ms", 1e3 * spent.seconds}, {"processor_ms", 1e3 * spent.processor_seconds}};
}

Json CeilingsJson(const tools::Ceilings& ceilings) {
  return {{"flop_per_s", ceilings.flops_per_sec},
          {"side_of_matrices", ceilings.side},
          {"bytes_per_s", ceilings.bytes_per_sec},
          {"bytes_of_arrays", ceilings.array_bytes}};
}

Json StepJson(const StepFlags& flags, const Session& session, const StepReport& report) {
  const double total = Total(report.times);
  Json json = RunJson(flags, session, report.backend);
  json.update(
      {{"steps", report.steps},
       {"step_ms", {{"median", 1e3 * report.median}, {"p10", 1e3 * report.tenth}, {"p90", 1e3 * report.nine_tenths}}},
       {"images_per_s", ImagesPerSecond(flags.plan, report.median)},
       {"flop_per_s", static_cast<double>(report.work.flops) / report.median},
       {"bytes_per_s", static_cast<double>(report.work.bytes_moved()) / report.median},
       {"sent_bytes_per_s", static_cast<double>(report.work.bytes_sent) / report.median},
       {"host_ms", 1e3 * report.host},
       {"start_up", SpentJson(report.start_up)},
       {"first_step", SpentJson(report.first_step)},
       {"breakdown",
        {{"compute", InSeconds(report.times.compute) / total},
         {"exposed_communication", InSeconds(report.times.exposed_communication) / total},
         {"input_wait", InSeconds(report.times.input_wait) / total},
         {"idle", InSeconds(report.times.idle) / total}}},
       {"kinds", Json::array()},
       {"peak_memory_bytes", Json::array()}});
  for (const auto& [name, kind] : SortedKinds(report)) {
    json["kinds"].push_back({{"kind", name},
                             {"tasks", kind.tasks},
                             {"device_ms", 1e3 * kind.seconds / report.devices},
                             {"flops", kind.work.flops},
                             {"bytes", kind.work.bytes_moved()},
                             {"sent_bytes", kind.work.bytes_sent}});
  }
  for (const engine::DeviceMemory& device : report.memory) json["peak_memory_bytes"].push_back(device.total_bytes());
  if (report.ceilings.has_value()) json["ceilings"] = CeilingsJson(*report.ceilings);
  if (!report.pairs.empty()) json["against"] = PairsJson(flags.against, report.pairs);
  return json;
}

void PrintCeilings(const tools::Ceilings& ceilings) {
  PrintLine(
      absl::StrFormat("ceilings of a device while all are at work: %.2f GFLOP/s (a product of matrices of %d x %d), %.2f "
                      "GB/s (the sum of two arrays of %.0f MB)",
                      ceilings.flops_per_sec / 1e9, ceilings.side, ceilings.side, ceilings.bytes_per_sec / 1e9,
                      static_cast<double>(ceilings.array_bytes) / 1e6));
}

void PrintStep(const StepFlags& flags, const StepReport& report) {
  PrintLine(absl::StrFormat("step %.3f ms (median of %d; p10 %.3f, p90 %.3f)  %.1f images/s", 1e3 * report.median,
                            report.steps, 1e3 * report.tenth, 1e3 * report.nine_tenths,
                            ImagesPerSecond(flags.plan, report.median)));
  PrintLine(absl::StrFormat("all devices together: %.2f GFLOP/s, %.2f GB/s read and written by kernels, %.3f GB/s sent",
                            static_cast<double>(report.work.flops) / report.median / 1e9,
                            static_cast<double>(report.work.bytes_moved()) / report.median / 1e9,
                            static_cast<double>(report.work.bytes_sent) / report.median / 1e9));
  const double total = Total(report.times);
  PrintLine(absl::StrFormat(
      "of a device's time: compute %.1f %%, exposed communication %.1f %%, input %.1f %%, idle %.1f %%",
      100 * InSeconds(report.times.compute) / total, 100 * InSeconds(report.times.exposed_communication) / total,
      100 * InSeconds(report.times.input_wait) / total, 100 * InSeconds(report.times.idle) / total));
  PrintLine(absl::StrFormat("memory: at most %.1f MB of a device", static_cast<double>(PeakBytes(report)) / 1e6));
  PrintLine(
      absl::StrFormat("start-up: the Program was ready after %.3f s (processor %.3f s), its first step took %.3f s (%.3f s)",
                      report.start_up.seconds, report.start_up.processor_seconds, report.first_step.seconds,
                      report.first_step.processor_seconds));
  if (report.ceilings.has_value()) PrintCeilings(*report.ceilings);
  PrintLine("");
  PrintLine(
      absl::StrFormat("%-32s %6s %14s %8s %10s %8s", "kind of task", "tasks", "ms of a device", "share", "GFLOP/s", "GB/s"));
  double sum = 0;
  for (const auto& [name, kind] : report.kinds) sum += kind.seconds;
  for (const auto& [name, kind] : SortedKinds(report)) {
    const auto bytes = static_cast<double>(std::max(kind.work.bytes_moved(), kind.work.bytes_sent));
    const std::string flops =
        kind.work.flops > 0 ? absl::StrFormat("%.2f", static_cast<double>(kind.work.flops) / kind.seconds / 1e9) : "-";
    PrintLine(absl::StrFormat("%-32s %6d %14.3f %6.1f %% %10s %8.2f", name, kind.tasks, 1e3 * kind.seconds / report.devices,
                              100 * kind.seconds / sum, flops, bytes / kind.seconds / 1e9));
  }
  if (!report.pairs.empty()) PrintPairs(flags.against, report.pairs);
}

absl::Status RunBenchStep(const StepFlags& flags) {
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  RETURN_IF_ERROR(CheckWrittenFiles({{"--roofline", flags.roofline, FileKind::kDrawing}},
                                    {{"--model", IfFile(flags.network.model)},
                                     {"--plan", IfFile(flags.plan.name)},
                                     {"--machine", IfFile(flags.profile.machine)},
                                     {"--search-algorithms", flags.backend.search_algorithms}}));
  ASSIGN_OR_RETURN(const Session session, OpenSession(flags, nullptr));
  ASSIGN_OR_RETURN(const StepReport report, MeasureStep(flags, session));
  SaySession(flags.backend, session, report.backend);
  if (flags.json) {
    PrintJson(StepJson(flags, session, report));
  } else {
    PrintStep(flags, report);
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddBenchStep(CLI::App& bench) {
  CLI::App* step = bench.add_subcommand(
      "step", "A training step without data: time and its spread, flop/s, bytes/s, time by kind of task, memory.");
  const auto flags = std::make_shared<StepFlags>();
  AddModelFlags(*step, flags->network);
  AddPlanFlags(*step, flags->plan);
  AddProfileFlag(*step, flags->profile);
  AddBackendFlags(*step, flags->backend);
  step->add_option("--steps", flags->steps,
                   "steps that are timed, in each pair of --against (default: 20, and at least a second)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  step->add_option("--roofline", flags->roofline,
                   "each task's flop/s over its flop per byte, below what this machine reaches, as an SVG file")
      ->check(DrawnFile())
      ->type_name("FILE.svg");
  CLI::Option* against = step->add_option("--against", flags->against,
                                          "a command of another program, which prints images/s: run in turn with the step")
                             ->type_name("COMMAND");
  step->add_option("--pairs", flags->pairs, "runs of the step and of that command")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(against);
  AddJsonFlag(*step, flags->json);
  step->footer(
      "Examples:\n  colonnade bench step --model=alexnet --batch=32 --devices=2 --plan=owt\n"
      "  colonnade bench step --model=alexnet --batch=256 --backend=cuda --dtype=bf16 --json\n"
      "  colonnade bench step --model=resnet20 --batch=128 --roofline=roofline.svg\n"
      "  colonnade bench step --model=alexnet --batch=64 --against='python3 alexnet.py'");
  return {step, [=] { return RunBenchStep(*flags); }};
}

}  // namespace colonnade::cli
