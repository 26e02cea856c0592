#include "cli/commands.h"

#include <algorithm>

namespace colonnade::cli {

std::vector<SubCommand> AddSubCommands(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome) {
  return {AddTrain(app, stop, outcome),
          AddEval(app, stop, outcome),
          AddPredict(app, stop, outcome),
          AddCheckpoint(app),
          AddVerify(app, outcome),
          AddProgram(app),
          AddPlan(app),
          AddSimulate(app),
          AddTable(app),
          AddCalibrate(app),
          AddModels(app),
          AddIoBench(app),
          AddBench(app, outcome),
          AddInfo(app),
          AddCompletion(app),
          AddMan(app)};
}

const SubCommand& ParsedOf(const std::vector<SubCommand>& commands) {
  return *std::ranges::find_if(commands, [](const SubCommand& one) { return one.app->parsed(); });
}

}  // namespace colonnade::cli
