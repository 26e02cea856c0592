// `colonnade bench`: the sub-commands that measure, their flags and what runs them.
#ifndef COLONNADE_CLI_BENCH_H_
#define COLONNADE_CLI_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"

namespace colonnade::cli {

// What these have beside the flags of all sub-commands.
struct BenchFlags {
  // transfers
  std::vector<std::string> operations;  // empty: all
  std::vector<int> members;             // empty: 2 and 4, or the number of GPUs
  int64_t least_bytes = 4 << 10, most_bytes = 64 << 20, factor = 4;
  int iterations = 20, warm_ups = 5, checks = 1;
  std::string matrix = "on";
  // step
  std::string roofline;  // the file; empty: none
  std::string against;   // a command; empty: none
  int pairs = 5;
  // plans, simulator
  int slices = 10, rounds = 5;
};

// Returns the group `bench` with its sub-commands.
CLI::App* AddBench(CLI::App& app, Flags& flags, BenchFlags& bench);
// The one of them that was parsed.
absl::Status RunBench(const CLI::App& bench, Flags& flags, const BenchFlags& more, Outcome& outcome);

absl::Status RunBenchTransfers(const Flags& flags, const BenchFlags& bench, Outcome& outcome);
absl::Status RunBenchStep(const Flags& flags, const BenchFlags& bench);
absl::Status RunBenchPlans(const Flags& flags, const BenchFlags& bench);
absl::Status RunBenchSimulator(const Flags& flags, const BenchFlags& bench);

// Networks that `bench simulator` predicts.
std::vector<std::string> ModelsOfBenchSimulator();

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_BENCH_H_
