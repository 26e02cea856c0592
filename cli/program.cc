#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/session.h"
#include "program/text.h"

namespace colonnade::cli {
namespace {

struct ProgramFlags : SessionFlags {
  std::string mode = "train", config;
  bool summary = false;
};

// Per device what it does, and what moves between devices for which layer.
void PrintSummary(const program::Program& program) {
  struct Sums {
    int64_t tasks = 0, flops = 0, sent = 0;
  };
  std::vector<Sums> devices(program.device_count);
  std::map<std::tuple<program::Pass, std::string, std::string>, Sums> moves;
  for (const program::Task& task : program.tasks) {
    Sums& device = devices[task.device];
    ++device.tasks;
    device.flops += task.work.flops;
    device.sent += task.work.bytes_sent;
    if (std::holds_alternative<program::Compute>(task.body)) continue;
    Sums& move = moves[{task.provenance.pass, task.provenance.layer, program::Name(task)}];
    ++move.tasks;
    move.sent += task.work.bytes_sent;
  }
  std::printf("device    tasks       Gflop     MB sent\n");
  for (size_t d = 0; d < devices.size(); ++d) {
    PrintLine(absl::StrFormat("%6d %8d %11.3f %11.3f", d, devices[d].tasks, static_cast<double>(devices[d].flops) / 1e9,
                              static_cast<double>(devices[d].sent) / 1e6));
  }
  std::printf("%s\n",
              moves.empty() ? "nothing moves between devices" : "moves     layer                kind                MB");
  for (const auto& [key, sums] : moves) {
    const auto& [pass, layer, kind] = key;
    PrintLine(absl::StrFormat("%-9s %s %-15s %6.3f", program::Name(pass), PadRight(layer, 20), kind,
                              static_cast<double>(sums.sent) / 1e6));
  }
}

absl::Status RunProgram(const ProgramFlags& flags) {
  const program::Mode mode = flags.mode == "eval" ? program::Mode::kEval : program::Mode::kTrain;
  ASSIGN_OR_RETURN(Session session, OpenSession(flags, nullptr, mode));
  std::optional<CountProgress> progress(std::in_place, "lowering");
  partition::LowerOptions options = LowerOptionsOf(flags, session, mode);
  options.progress = [&](int done, int passes) { progress->Show(done, passes, " passes"); };
  ASSIGN_OR_RETURN(program::Program program, partition::Lower(session.graph, session.plan, options));
  const std::string text = flags.summary ? "" : program::Print(program);
  progress.reset();
  SayNotes(session.plan);
  if (flags.summary) {
    PrintSummary(program);
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace

SubCommand AddProgram(CLI::App& app) {
  CLI::App* program = app.add_subcommand("program", "Prints the lowered Program of a model, plan and batch.");
  const auto flags = std::make_shared<ProgramFlags>();
  AddLoweringFlags(*program, *flags);
  AddKernelsFlag(*program, flags->backend);
  AddDtypeFlag(*program, flags->backend, /*may_be_auto=*/false);
  program->add_option("--mode", flags->mode, "train or eval")
      ->check(CLI::IsMember({"train", "eval"}))
      ->capture_default_str();
  program->add_flag("--summary", flags->summary, "what each device does, and what moves between devices");
  AddConfigFlag(*program, flags->config);
  program->footer(
      "Examples:\n  colonnade program --model=alexnet2012 --plan=model --devices=2 --summary\n"
      "  colonnade program --model=two_column --plan=hybrid --devices=4 --batch=32");
  return {program, [=] { return RunProgram(*flags); }};
}

}  // namespace colonnade::cli
