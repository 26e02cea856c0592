#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/command_line/config.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/session/run_json.h"
#include "cli/session/session.h"
#include "nlohmann/json.hpp"
#include "program/text.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ProgramFlags : SessionFlags {
  std::string mode = "train", config;
  bool summary = false, json = false;
};

struct Sums {
  int64_t tasks = 0, flops = 0, bytes_sent = 0;
};

// Per device what it does, and what moves between devices for which layer.
struct Summary {
  std::vector<Sums> devices;
  std::map<std::tuple<program::Pass, std::string, std::string>, Sums> moves;  // by pass, layer and kind of task
};

Summary SummaryOf(const program::Program& program) {
  Summary summary;
  summary.devices.resize(program.device_count);
  for (const program::Task& task : program.tasks) {
    Sums& device = summary.devices[task.device];
    ++device.tasks;
    device.flops += task.work.flops;
    device.bytes_sent += task.work.bytes_sent;
    if (std::holds_alternative<program::Compute>(task.body)) continue;
    Sums& move = summary.moves[{task.provenance.pass, task.provenance.layer, program::Name(task)}];
    ++move.tasks;
    move.bytes_sent += task.work.bytes_sent;
  }
  return summary;
}

void PrintSummary(const Summary& summary) {
  std::printf("device    tasks       Gflop     MB sent\n");
  for (size_t d = 0; d < summary.devices.size(); ++d) {
    const Sums& sums = summary.devices[d];
    PrintLine(absl::StrFormat("%6d %8d %11.3f %11.3f", d, sums.tasks, static_cast<double>(sums.flops) / 1e9,
                              static_cast<double>(sums.bytes_sent) / 1e6));
  }
  const bool moves = !summary.moves.empty();
  PrintLine(moves ? "moves     layer                kind                MB" : "nothing moves between devices");
  for (const auto& [key, sums] : summary.moves) {
    const auto& [pass, layer, kind] = key;
    PrintLine(absl::StrFormat("%-9s %s %-15s %6.3f", program::Name(pass), PadRight(layer, 20), kind,
                              static_cast<double>(sums.bytes_sent) / 1e6));
  }
}

Json SummaryJson(const ProgramFlags& flags, const Session& session, const Summary& summary) {
  Json json = {{"model", session.graph.name},       {"mode", flags.mode},          {"global_batch", flags.plan.batch},
               {"dtype", DTypeName(flags.backend)}, {"per_device", Json::array()}, {"moves", Json::array()}};
  json.update(PlanJson(session.plan));
  for (const Sums& sums : summary.devices) {
    json["per_device"].push_back({{"tasks", sums.tasks}, {"flops", sums.flops}, {"sent_bytes", sums.bytes_sent}});
  }
  for (const auto& [key, sums] : summary.moves) {
    const auto& [pass, layer, kind] = key;
    json["moves"].push_back({{"pass", program::Name(pass)},
                             {"layer", layer},
                             {"kind", kind},
                             {"tasks", sums.tasks},
                             {"sent_bytes", sums.bytes_sent}});
  }
  return json;
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
  if (!flags.summary) {
    std::fputs(text.c_str(), stdout);
  } else if (flags.json) {
    PrintJson(SummaryJson(flags, session, SummaryOf(program)));
  } else {
    PrintSummary(SummaryOf(program));
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
  CLI::Option* summary =
      program->add_flag("--summary", flags->summary, "what each device does, and what moves between devices");
  AddJsonFlag(*program, flags->json);
  program->get_option("--json")->description("with --summary: one JSON object on stdout")->needs(summary);
  AddConfigFlag(*program, flags->config);
  program->footer(
      "Examples:\n  colonnade program --model=alexnet2012 --plan=model --devices=2 --summary\n"
      "  colonnade program --model=two_column --plan=hybrid --devices=4 --batch=32");
  return {program, [=] { return RunProgram(*flags); }};
}

}  // namespace colonnade::cli
