#include "cli/flags.h"

namespace colonnade::cli {

void AddRecordFlags(CLI::App& app, Flags& flags) {
  const std::string group = "Records";
  app.add_option("--log", flags.log, "one JSON object a line: what is run, each step, each test; --resume goes on with it")
      ->type_name("FILE.jsonl")
      ->group(group);
  app.add_option("--tensorboard", flags.tensorboard, "folder for event files of the same, which TensorBoard reads")
      ->type_name("DIR")
      ->group(group);
}

}  // namespace colonnade::cli
