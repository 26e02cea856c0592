// Transfers between the devices of a backend: time, algbw and busbw as nccl-tests defines them, 4 KB to 256 MB.
//
// S is the bytes of a member's operand for exchange and all-reduce, of all members' together for all-gather and
// reduce-scatter; algbw = S / t, busbw = algbw times 2(n−1)/n for all-reduce, (n−1)/n for the other collectives, 1 for an
// exchange. Every size is checked for its result before it is timed. `--benchmark_format=json` prints JSON; `--backend=cuda`
// is for GPUs, which more devices than there are share.
#include "tools/transfers.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/command_line.h"
#include "cli/session.h"
#include "program/status_macros.h"

namespace {

using namespace colonnade;

constexpr int kRepeats = 5;

double BusFactor(const std::string& what, int members) {
  const double n = members;
  if (what == "all_reduce") return 2 * (n - 1) / n;
  return what == "exchange" || what == "channel_slice" ? 1 : (n - 1) / n;
}

void Transfer(benchmark::State& state, const std::string& what, int members, const cli::Flags& flags) {
  const int64_t total = state.range(0);
  const int64_t operand = what == "all_gather" ? total / members : total;
  for (auto _ : state) {
    absl::StatusOr<tools::TransferTime> time = tools::MeasureTransfer(what, members, operand, kRepeats, [&](int devices) {
      return cli::OpenBackend(flags, devices, 1, /*times_tasks=*/true);
    });
    if (!time.ok()) {
      state.SkipWithError(std::string(time.status().message()).c_str());
      return;
    }
    state.SetIterationTime(time->seconds);
    const double algbw = static_cast<double>(total) / time->seconds;
    state.counters["algbw_bytes_per_sec"] = algbw;
    state.counters["busbw_bytes_per_sec"] = algbw * BusFactor(what, members);
  }
  state.counters["wrong"] = 0;  // a wrong result ends the benchmark with an error
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  cli::Flags flags{.backend = "cpu"};
  CLI::App app("Times transfers between devices; and see --benchmark_format, --benchmark_out, --benchmark_filter.",
               "transfers");
  cli::AddMeasuringFlags(app, flags);
  return bench::Run(app, argc, argv, [&]() -> absl::Status {
    RETURN_IF_ERROR(cli::CheckBackend(flags));
    for (const std::string& what : tools::TransferNames()) {
      for (int members : {2, 4}) {
        if (members > 2 && (what == "exchange" || what == "channel_slice")) continue;
        benchmark::RegisterBenchmark(
            absl::StrCat(what, "/", members).c_str(),
            [&flags, what, members](benchmark::State& state) { Transfer(state, what, members, flags); })
            ->RangeMultiplier(8)
            ->Range(4 << 10, 256 << 20)
            ->UseManualTime()
            ->Iterations(1)
            ->Unit(benchmark::kMicrosecond);
      }
    }
    benchmark::RunSpecifiedBenchmarks();
    return absl::OkStatus();
  });
}
