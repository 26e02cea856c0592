// The sub-commands: a file each, which has its flags, its examples and what runs it.
#ifndef COLONNADE_CLI_COMMANDS_H_
#define COLONNADE_CLI_COMMANDS_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace colonnade::cli {

// What a command says beside its status.
struct Outcome {
  bool interrupted = false;  // ended early, as a signal asked for
  std::string saved;         // train: what of it is kept, if anything
  bool resumes = false;      // train: --resume would go on where it ended
  bool disagrees = false;    // verify, bench transfers: exit code 1
  // train, eval, predict: called before the first step; until then there is nothing to keep, and a signal ends the process
  // at once.
  std::function<void()> before_steps = [] {};
};

struct SubCommand {
  CLI::App* app = nullptr;
  std::function<absl::Status()> run;  // once the command line is parsed; the exit code is made of its error
  // Signals end it between two steps, with what it has; those of the others end the process, since there is nothing to keep.
  bool keeps_results = false;
  bool ignores_sigpipe = false;  // goes on where nobody reads any longer what it says
};

// Adds all of them, in the order of help; all arguments must outlive the result.
std::vector<SubCommand> AddSubCommands(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome);

// Returns the one that the command line names. REQUIRES: it was parsed, and names one of them.
const SubCommand& ParsedOf(const std::vector<SubCommand>& commands);

// Add one of them.
SubCommand AddTrain(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome);
SubCommand AddEval(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome);
SubCommand AddPredict(CLI::App& app, const std::atomic<bool>& stop, Outcome& outcome);
SubCommand AddCheckpoint(CLI::App& app);
SubCommand AddVerify(CLI::App& app, Outcome& outcome);
SubCommand AddProgram(CLI::App& app);
SubCommand AddPlan(CLI::App& app);
SubCommand AddSimulate(CLI::App& app);
SubCommand AddTable(CLI::App& app);
SubCommand AddCalibrate(CLI::App& app);
SubCommand AddModels(CLI::App& app);
SubCommand AddIoBench(CLI::App& app);
SubCommand AddBench(CLI::App& app, Outcome& outcome);  // a group
SubCommand AddBenchTransfers(CLI::App& bench, Outcome& outcome);
SubCommand AddBenchStep(CLI::App& bench);
SubCommand AddBenchPlans(CLI::App& bench);
SubCommand AddBenchSimulator(CLI::App& bench);
SubCommand AddInfo(CLI::App& app);
SubCommand AddCompletion(CLI::App& app);
SubCommand AddMan(CLI::App& app);

// Lists the networks of the zoo, what --model=list of any sub-command asks for; as JSON or as a table.
absl::Status ListModels(bool as_json);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMANDS_H_
