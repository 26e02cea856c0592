#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "base/with_context.h"
#include "cli/calibration_time.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/input_run.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/core_wait_count.h"
#include "cli/session/devices.h"
#include "cli/session/named_files.h"
#include "cli/session/session.h"
#include "cpu/threads/cores.h"
#include "engine/io/file.h"
#include "tools/calibration.h"
#include "tools/machines.h"
#include "tools/network_file.h"
#include "tools/observations.h"

namespace colonnade::cli {
namespace {

struct CalibrateFlags {
  CalibrateFlags() {
    backend.name = "cpu";
    input.data.source.clear();
  }
  BackendFlags backend;
  std::string model;  // empty: some of the zoo
  int devices = 0;    // 0: as many as there are cores, or GPUs
  InputFlags input;   // its batch is that of the models, too
  std::string out, transfers, config;
  bool long_run = false, json = false;
};

constexpr absl::Duration kInAll = absl::Minutes(3), kSliceTime = absl::Milliseconds(100), kSweepTime = absl::Seconds(10),
                         kInputTime = absl::Seconds(5);  // to read data before, and to time the input
constexpr int64_t kManyEpochs = 1 << 20, kLargestTransfersFile = int64_t{1} << 28;
constexpr double kMuchLonger = 1.5;
constexpr double kUsualFlopsPerCore = 60e9;  // a second, in training, with 256-bit vectors

absl::StatusOr<std::string> OpenOutput(const CalibrateFlags& flags) {
  const std::string path = flags.out.empty() ? tools::LocalMachinePath(KernelsOf(flags.backend)) : flags.out;
  if (path.empty()) {
    return absl::FailedPreconditionError(
        "--out: expected where to write the profile, since HOME is not set, found none; say --out=FILE or set HOME");
  }
  if (flags.out.empty()) {
    const absl::Status made = engine::MakeFolders(std::filesystem::path(path).parent_path());
    if (!made.ok()) {
      return absl::Status(made.code(), absl::StrCat(made.message(), "; --out=FILE writes the profile elsewhere"));
    }
  }
  RETURN_IF_ERROR(CheckWrittenFiles({{"--out", path, flags.out.empty() ? FileKind::kAny : FileKind::kProfile}},
                                    {{"--config", flags.config},
                                     {"--model", IfFile(flags.model)},
                                     {"--transfers", flags.transfers},
                                     {"--data", IfFile(flags.input.data.source)}}));
  return path;
}

absl::StatusOr<tools::CalibrationTarget> TargetOf(const CalibrateFlags& flags) {
  if (flags.backend.name != "cuda") {
    return tools::CpuTarget(flags.devices > 0 ? flags.devices : cpu::UsableCores(), KernelsOf(flags.backend));
  }
  ASSIGN_OR_RETURN(tools::Gpus gpus, FindGpus());
  tools::CalibrationTarget target = tools::GpuTarget(gpus, flags.devices, flags.backend.dtype);
  target.dtype = DTypeOf(flags.backend);
  target.make_backend = target.make_mover = [backend = flags.backend](int devices) {
    return OpenBackend(backend, devices, 1, /*times_tasks=*/true);
  };
  return target;
}

// Returns the transfers of --transfers; none where they are to be timed here.
absl::StatusOr<std::vector<tools::TransferTime>> TransfersOf(const CalibrateFlags& flags) {
  if (flags.transfers.empty()) return std::vector<tools::TransferTime>();
  ASSIGN_OR_RETURN(std::string text, engine::ReadFile(flags.transfers, kLargestTransfersFile));
  absl::StatusOr<std::vector<tools::TransferTime>> read = tools::ReadTransfers(text);
  if (read.ok()) return read;
  return base::WithContext(read.status(), flags.transfers);
}

// Null where there is no --data.
absl::StatusOr<Samples> InputOf(const CalibrateFlags& flags) {
  if (flags.input.data.source.empty()) return Samples();
  ASSIGN_OR_RETURN(Samples set, OpenInput(flags.input));
  RETURN_IF_ERROR(InputRecipe(flags.input, *set).status());
  return set;
}

absl::Duration TimeOfInput(const Samples& input) { return input == nullptr ? absl::ZeroDuration() : 2 * kInputTime; }

// The input by itself, its batches copied as training copies them into a step.
absl::StatusOr<tools::InputSpeed> MeasureInput(const CalibrateFlags& flags, const Samples& input) {
  const CountProgress progress("timing the input");
  RETURN_IF_ERROR(ReadBefore(*input, kInputTime).status());
  std::vector<uint8_t> step;
  absl::Duration copying;
  std::vector<Arrival> arrivals;
  const auto copy = [&](const data::Batch& batch) {
    step.resize(batch.pixels.size());
    const absl::Time begin = base::SteadyNow();
    std::copy(batch.pixels.begin(), batch.pixels.end(), step.begin());
    copying += base::SteadyNow() - begin;
    const int64_t before = arrivals.empty() ? 0 : arrivals.back().images;
    arrivals.push_back({begin, before + static_cast<int64_t>(batch.samples.size())});
  };
  ASSIGN_OR_RETURN(const InputRun run, RunInput(flags.input, input, DataThreads(flags.input.data),
                                                {.epochs = kManyEpochs, .time = kInputTime}, copy));
  return tools::InputSpeed{
      run.images_per_s(), absl::ToDoubleSeconds(copying) / static_cast<double>(run.count),
      absl::StrFormat("%s; %d threads, %.1f s", run.description, run.threads, absl::ToDoubleSeconds(run.elapsed)),
      tools::FactorOfTimes(SecondsOfAnImage(arrivals))};
}

// A network under a plan, at two batches.
struct PlanRun {
  const layers::LayerGraph* graph;
  tools::CalibrationPlan plan;
  std::vector<int64_t> batches;

  std::string name() const {
    return absl::StrFormat("%s, %s on %d%s", graph->name, plan.name, plan.devices, plan.overlap ? ", overlapped" : "");
  }
};

CalibrationTime TimeOf(const CalibrateFlags& flags, const std::vector<PlanRun>& runs, absl::Duration budget) {
  std::vector<CalibrationRun> expected;
  for (const PlanRun& run : runs) {
    double flops = 0;
    for (int64_t batch : run.batches) flops += 3.0 * static_cast<double>(run.graph->ForwardFlops(batch));  // backward: twice
    expected.push_back({run.graph->name, flops, static_cast<int>(run.batches.size())});
  }
  const double flops_per_sec = kUsualFlopsPerCore * cpu::UsableCores();
  return {std::move(expected), flags.long_run ? absl::InfiniteDuration() : budget, flops_per_sec, kSliceTime};
}

// Loads the Programs of a run and lets them take turns: fewer where they take longer than `most`. Returns false where the
// network does not split so, and there is nothing to run.
absl::StatusOr<bool> RunSlices(const PlanRun& run, size_t index, int slices, absl::Duration most,
                               tools::Calibration& calibration, CalibrationTime& time, CoreWaitCount& waits) {
  const absl::Time begin = base::SteadyNow();
  RETURN_IF_ERROR(base::WithContext(calibration.Load(*run.graph, run.plan, run.batches),
                                    absl::StrCat(run.name(), ", timed at batches around --batch")));
  if (calibration.loaded() == 0) return false;
  const absl::Time loaded = base::SteadyNow();
  int done = 0;
  waits.Begin();
  do {
    for (int p = 0; p < calibration.loaded(); ++p) {
      RETURN_IF_ERROR(calibration.Run(p, 1, kSliceTime));
    }
  } while (++done < slices && base::SteadyNow() - begin < most);
  waits.End();
  time.Add(index, loaded - begin, done, base::SteadyNow() - loaded);
  return true;
}

// Plans that were not run, by name.
struct LeftOut {
  std::vector<std::string> for_time, illegal;
};

// Runs all plans of the networks, as long as there is time, and says on stderr how far that is. What comes after takes
// `afterwards`.
absl::StatusOr<LeftOut> RunPlans(const CalibrateFlags& flags, int devices, absl::Duration afterwards,
                                 tools::Calibration& calibration) {
  const std::vector<std::string> names = flags.model.empty() ? std::vector<std::string>{"lenet", "alexnet2012", "alexnet"}
                                                             : std::vector<std::string>{flags.model};
  std::vector<layers::LayerGraph> graphs;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(tools::Network network, tools::OpenNetwork(name));
    graphs.push_back(std::move(network.graph));
  }
  std::vector<PlanRun> runs;
  for (const layers::LayerGraph& graph : graphs) {
    for (const tools::CalibrationPlan& plan : PlansToTime(devices, flags.long_run))
      runs.push_back({&graph, plan, tools::CalibrationBatches(flags.input.batch, devices, plan.devices)});
  }
  CalibrationTime time = TimeOf(flags, runs, kInAll - afterwards);
  Say(absl::StrFormat("calibrating by %s of %s: about %s, %s", base::Counted(runs.size(), "plan"),
                      absl::StrJoin(names, ", "), Clock(time.Left(0, absl::ZeroDuration()) + afterwards),
                      flags.long_run ? "as long as it takes" : "at most 3 minutes (--long: all rounds of all plans)"));
  LeftOut left_out;
  CoreWaitCount waits;
  CountProgress progress("calibrating:");
  const absl::Time begin = base::SteadyNow();
  for (size_t r = 0; r < runs.size(); ++r) {
    const absl::Duration passed = base::SteadyNow() - begin;
    const auto done = static_cast<int64_t>(r), all = static_cast<int64_t>(runs.size());
    progress.Show(done, all, absl::StrCat(" plans, ", runs[r].name()), time.Left(r, passed) + afterwards);
    const int slices = time.SlicesInTime(r, passed);
    if (slices == 0) {
      left_out.for_time.push_back(runs[r].name());
    } else {
      const absl::Duration most = flags.long_run ? absl::InfiniteDuration() : kMuchLonger * time.Expected(r, slices);
      ASSIGN_OR_RETURN(const bool ran, RunSlices(runs[r], r, slices, most, calibration, time, waits));
      if (!ran) left_out.illegal.push_back(runs[r].name());
    }
  }
  if (const std::string busy = BusyWarning(waits.share()); !busy.empty()) Warn(busy);
  return left_out;
}

void SayLeftOut(const LeftOut& left_out) {
  if (!left_out.for_time.empty()) {
    Say(absl::StrCat("left out for want of time (--long): ", absl::StrJoin(left_out.for_time, "; ")));
  }
  if (!left_out.illegal.empty()) {
    Say(absl::StrCat("left out, since the network does not split so: ", absl::StrJoin(left_out.illegal, "; ")));
  }
}

// The networks at whose shapes the profile in a file was measured; none where it names none, or is no profile.
std::vector<std::string> TimedIn(const std::string& path) {
  const absl::StatusOr<engine::Machine> machine = tools::ReadMachineFile(path);
  return machine.ok() ? machine->timed : std::vector<std::string>();
}

// With what was timed: the network `model`, or those that are timed by default where it is empty.
absl::Status WriteProfile(const std::string& model, const std::string& path, engine::Machine machine) {
  if (!model.empty()) {
    ASSIGN_OR_RETURN(const tools::Network network, tools::OpenNetwork(model));
    machine.timed = {network.graph.name};
  }
  const std::string profile = engine::MachineToJson(machine);
  RETURN_IF_ERROR(base::WithContext(engine::MachineFromJson(profile).status(), "the profile that was measured"));
  const std::vector<std::string> before = TimedIn(path);
  RETURN_IF_ERROR(engine::ReplaceFile(path, profile));
  if (before.empty() || before == machine.timed) return absl::OkStatus();
  Say(absl::StrFormat("note: this replaced the profile of %s in %s", absl::StrJoin(before, ", "), path));
  return absl::OkStatus();
}

absl::Status RunCalibrate(const CalibrateFlags& flags) {
  if (flags.backend.name == "cuda" && flags.out.empty()) {
    return absl::FailedPreconditionError(
        "--backend=cuda: expected --out=FILE, found none; the profile named local is the CPU's");
  }
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  ASSIGN_OR_RETURN(std::string path, OpenOutput(flags));
  ASSIGN_OR_RETURN(tools::CalibrationTarget target, TargetOf(flags));
  ASSIGN_OR_RETURN(std::vector<tools::TransferTime> transfers, TransfersOf(flags));
  ASSIGN_OR_RETURN(const Samples input, InputOf(flags));
  const absl::Time begin = base::SteadyNow();
  const int devices = target.devices;
  tools::Calibration calibration(std::move(target));
  ASSIGN_OR_RETURN(LeftOut left_out, RunPlans(flags, devices, kSweepTime + TimeOfInput(input), calibration));
  SayLeftOut(left_out);
  if (flags.transfers.empty()) {
    const CountProgress progress("timing transfers");
    RETURN_IF_ERROR(calibration.SweepTransfers());
  }
  calibration.AddTransfers(transfers);
  if (input != nullptr) {
    ASSIGN_OR_RETURN(tools::InputSpeed speed, MeasureInput(flags, input));
    calibration.SetInput(std::move(speed));
  }
  RETURN_IF_ERROR(WriteProfile(flags.model, path, calibration.Result()));
  if (flags.json) {
    PrintJson({{"machine", path},
               {"devices", devices},
               {"seconds", absl::ToDoubleSeconds(base::SteadyNow() - begin)},
               {"left_out", left_out.for_time},
               {"does_not_split", left_out.illegal}});
  } else {
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddCalibrate(CLI::App& app) {
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Measures this machine's kernels, links and overheads; writes a machine profile.");
  const auto flags = std::make_shared<CalibrateFlags>();
  calibrate
      ->add_option("--model", flags->model, "network or file whose shapes are timed (default: lenet, alexnet2012, alexnet)")
      ->type_name("MODEL");
  calibrate->add_option("--batch", flags->input.batch, "global batch around which shapes are timed")
      ->check(CLI::Range(int64_t{1}, kMostTimedBatch))
      ->capture_default_str();
  calibrate->add_option("--devices", flags->devices, "devices at work, at most (default: cores, or GPUs)")
      ->check(CLI::Range(1, tools::kMostDevicesHere));
  calibrate->add_option("--out", flags->out, "where to write the profile (default: that of --machine=local)")
      ->type_name("FILE");
  calibrate->add_option("--transfers", flags->transfers, "JSON of bench transfers to read instead of timing transfers here")
      ->type_name("FILE");
  CLI::Option* data = AddDataFlag(*calibrate, flags->input.data,
                                  "data whose input is timed, as of io-bench (default: the input is not timed)");
  AddAugmentFlag(*calibrate, flags->input.data, "as of train")->needs(data);
  AddInputSizeFlag(*calibrate, flags->input.size, "rows and columns of an image of --data (default: the data's, or 224)")
      ->needs(data);
  calibrate->add_flag("--long", flags->long_run,
                      "all rounds of all plans, however long they take (default: what fits into three minutes)");
  AddMeasuringFlags(*calibrate, flags->backend);
  AddJsonFlag(*calibrate, flags->json);
  AddConfigFlag(*calibrate, flags->config);
  calibrate->footer(
      "Examples:\n  colonnade calibrate\n  colonnade calibrate --model=alexnet --batch=32 --out=machine.json\n"
      "  colonnade calibrate --data=imagenet --augment=resized,mirror\n"
      "  colonnade calibrate --backend=cuda --dtype=tf32 --batch=256 --out=gpus.json");
  return {calibrate, [=] { return RunCalibrate(*flags); }};
}

}  // namespace colonnade::cli
