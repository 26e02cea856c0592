#include <vector>

#include "cli/commands.h"

namespace colonnade::cli {

SubCommand AddBench(CLI::App& app, Outcome& outcome) {
  CLI::App* bench = app.add_subcommand("bench", "Measures this machine: transfers, a step, plans, the simulator's error.");
  bench->require_subcommand(1);
  const std::vector<SubCommand> commands = {AddBenchTransfers(*bench, outcome), AddBenchStep(*bench), AddBenchPlans(*bench),
                                            AddBenchSimulator(*bench)};
  return {bench, [=] { return ParsedOf(commands).run(); }};
}

}  // namespace colonnade::cli
