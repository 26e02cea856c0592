#include "cli/bench.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/calibration.h"
#include "tools/transfers.h"

namespace colonnade::cli {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 34;
constexpr int kMostIterations = 100000;

// "64M" becomes the number of bytes, in powers of 1,024 as nccl-tests has it.
CLI::Validator ByteSize() {
  auto read = [](std::string& text) -> std::string {
    const std::string all = text;
    constexpr absl::string_view kUnits = "KMG";
    int64_t unit = 1, count = 0;
    const size_t found = text.empty() ? absl::string_view::npos : kUnits.find(absl::ascii_toupper(text.back()));
    if (found != absl::string_view::npos) {
      unit <<= 10 * (found + 1);
      text.pop_back();
    }
    if (!absl::SimpleAtoi(text, &count) || count < 4 / unit || count < 1 || count > kMostSize / unit) {
      return absl::StrFormat("expected bytes from 4 to 16G, as in 512, 4K or 64M, found \"%s\"", all);
    }
    text = absl::StrCat(count * unit);
    return "";
  };
  return {read, "N|NK|NM|NG"};
}

void AddTransfers(CLI::App& group, Flags& flags, BenchFlags& bench) {
  CLI::App* transfers = group.add_subcommand(
      "transfers",
      "Transfers between devices: time, algbw, busbw and wrong elements as nccl-tests prints them, and all pairs.");
  transfers->add_option("--operation", bench.operations, "transfers that are timed (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(tools::MeasurableTransferNames()));
  transfers->add_option("-b,--min-bytes", bench.least_bytes, "smallest size; of all-gathers that of the result")
      ->transform(ByteSize())
      ->default_str("4K");
  transfers->add_option("-e,--max-bytes", bench.most_bytes, "largest size, and that of the pairs")
      ->transform(ByteSize())
      ->default_str("64M");
  transfers->add_option("-f,--factor", bench.factor, "ratio of each size to the one before it")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
      ->capture_default_str();
  transfers
      ->add_option("-g,--devices", bench.members,
                   "numbers of devices, 2,4 (default: 2,4; on GPUs as many as there are, at least 2)")
      ->delimiter(',')
      ->check(CLI::Range(2, tools::kMostDevicesHere));
  transfers->add_option("-n,--iterations", bench.iterations, "runs that are timed, of each size")
      ->check(CLI::Range(1, kMostIterations))
      ->capture_default_str();
  transfers->add_option("-w,--warm-up", bench.warm_ups, "runs before them that are not timed")
      ->check(CLI::Range(0, kMostIterations))
      ->capture_default_str();
  transfers->add_option("-c,--check", bench.checks, "runs, each of other data, whose results are compared; 0: none")
      ->check(CLI::Range(0, kMostIterations))
      ->capture_default_str();
  transfers->add_option("--matrix", bench.matrix, "on: also every device to every other, as nvbandwidth prints it")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  AddTransferFlags(*transfers, flags);
  AddJsonFlag(*transfers, flags);
  transfers->footer(
      "Examples:\n  colonnade bench transfers --operation=all_reduce -b 8 -e 128M -f 2 -g 4\n"
      "  colonnade bench transfers --backend=cuda --json");
}

void AddStep(CLI::App& group, Flags& flags, BenchFlags& bench) {
  CLI::App* step = group.add_subcommand(
      "step", "A training step without data: time and its spread, flop/s, bytes/s, time by kind of task, memory.");
  AddModelFlags(*step, flags);
  AddPlanFlags(*step, flags);
  AddProfileFlag(*step, flags);
  AddBackendFlags(*step, flags);
  step->add_option("--steps", flags.steps,
                   "steps that are timed, in each pair of --against (default: 20, and at least a second)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  step->add_option("--roofline", bench.roofline,
                   "each task's flop/s over its flop per byte, below what this machine reaches, as an SVG file")
      ->check(DrawnFile())
      ->type_name("FILE.svg");
  CLI::Option* against = step->add_option("--against", bench.against,
                                          "a command of another program, which prints images/s: run in turn with the step")
                             ->type_name("COMMAND");
  step->add_option("--pairs", bench.pairs, "runs of the step and of that command")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(against);
  AddJsonFlag(*step, flags);
  step->footer(
      "Examples:\n  colonnade bench step --model=alexnet --batch=32 --devices=2 --plan=owt\n"
      "  colonnade bench step --model=alexnet --batch=256 --backend=cuda --dtype=bf16 --json\n"
      "  colonnade bench step --model=resnet20 --batch=128 --roofline=roofline.svg\n"
      "  colonnade bench step --model=alexnet --batch=64 --against='python3 alexnet.py'");
}

void AddPlans(CLI::App& group, Flags& flags, BenchFlags& bench) {
  CLI::App* plans = group.add_subcommand(
      "plans", "Every named plan of a network and the planner's choice, in turn: predicted and measured, with the spread.");
  plans->add_option("--model", flags.model, "network of the zoo")->type_name("MODEL")->required();
  plans->add_option("--batch", flags.batch, "global batch")->check(CLI::Range(int64_t{1}, kMostBatch))->default_str("32");
  plans->add_option("--devices", flags.devices, "devices of all plans but single")
      ->check(CLI::Range(1, tools::kMostDevicesHere))
      ->default_str("2");
  AddProfileFlag(*plans, flags);
  AddMeasuringFlags(*plans, flags);
  plans->add_flag("--deterministic", flags.deterministic, "on GPUs: every plan also with deterministic kernels and sums");
  plans->add_option("--slices", bench.slices, "turns that each plan gets, of 0.1 s or one step")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddJsonFlag(*plans, flags);
  plans->footer(
      "Examples:\n  colonnade bench plans --model=alexnet2012 --machine=cpu-2core\n"
      "  colonnade bench plans --model=alexnet --batch=256 --devices=4 --backend=cuda --machine=hgx-h100 --json");
}

void AddSimulator(CLI::App& group, Flags& flags, BenchFlags& bench) {
  CLI::App* simulator = group.add_subcommand(
      "simulator",
      "How well the simulator predicts this machine: calibrations and runs in turn, and the error of each case.");
  simulator->add_option("--model", flags.model, "this network alone")->check(CLI::IsMember(ModelsOfBenchSimulator()));
  simulator->add_option("--rounds", bench.rounds, "calibrations, and runs of every case")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  simulator->add_option("--slices", bench.slices, "turns that each case gets in a round, of 0.1 s or one step")
      ->check(CLI::Range(1, 1000))
      ->default_str("8");
  AddTimedKernelsFlag(*simulator, flags);
  simulator->add_option("--dtype", flags.dtype, "element type of compute")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  AddJsonFlag(*simulator, flags);
  simulator->footer(
      "Examples:\n  colonnade bench simulator --model=lenet --rounds=3\n  colonnade bench simulator --rounds=5 --slices=4 "
      "--json");
}

}  // namespace

CLI::App* AddBench(CLI::App& app, Flags& flags, BenchFlags& bench) {
  CLI::App* group = app.add_subcommand("bench", "Measures this machine: transfers, a step, plans, the simulator's error.");
  group->require_subcommand(1);
  AddTransfers(*group, flags, bench);
  AddStep(*group, flags, bench);
  AddPlans(*group, flags, bench);
  AddSimulator(*group, flags, bench);
  return group;
}

absl::Status RunBench(const CLI::App& bench, Flags& flags, const BenchFlags& more, Outcome& outcome) {
  const CLI::App& command = *bench.get_subcommands().front();
  const std::string& name = command.get_name();
  const auto unless_given = [&](const char* flag, auto& value, auto otherwise) {
    if (command.count(flag) == 0) value = otherwise;
  };
  BenchFlags own = more;
  if (name == "step") return RunBenchStep(flags, own);
  if (name == "simulator") {
    unless_given("--slices", own.slices, 8);
    flags.backend = "cpu";
    return RunBenchSimulator(flags, own);
  }
  unless_given("--backend", flags.backend, "cpu");
  if (name == "transfers") return RunBenchTransfers(flags, own, outcome);
  unless_given("--batch", flags.batch, 32);
  unless_given("--devices", flags.devices, 2);
  return RunBenchPlans(flags, own);
}

}  // namespace colonnade::cli
