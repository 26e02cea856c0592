// The command line of a measuring program: 0, 1 after an error, 2 on wrong usage.
#ifndef COLONNADE_BENCH_COMMAND_LINE_H_
#define COLONNADE_BENCH_COMMAND_LINE_H_

#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace colonnade::bench {

inline int Run(CLI::App& app, int argc, char** argv, absl::FunctionRef<absl::Status()> run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; --help lists what there is\n", app.get_name().c_str(), error.what());
    return 2;
  }
  const absl::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace colonnade::bench

#endif  // COLONNADE_BENCH_COMMAND_LINE_H_
