#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "base/with_context.h"
#include "cli/build_facts.h"
#include "cli/command_line/flags.h"
#include "cli/commands.h"
#include "cli/info.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/prediction/prediction.h"
#include "cli/session/devices.h"
#include "tools/calibration.h"
#include "tools/transfers.h"

namespace colonnade::cli {
namespace {

using Json = nlohmann::ordered_json;

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

struct TransfersFlags {
  TransfersFlags() { backend.name = "cpu"; }
  std::vector<std::string> operations;  // empty: all
  std::vector<int> members;             // empty: 2 and 4, or the number of GPUs
  int64_t least_bytes = 4 << 10, most_bytes = 64 << 20, factor = 4;
  int iterations = 20, warm_ups = 5, checks = 1;
  std::string matrix = "on";
  BackendFlags backend;
  bool json = false;
};

struct TransferRow {
  tools::TransferCase transfer;
  tools::TransferRun run;

  int64_t size() const { return tools::SizeOf(transfer, run.bytes); }
  double algbw() const { return static_cast<double>(size()) / run.Mean() / 1e9; }
  double busbw() const { return algbw() * tools::BusFactor(transfer.operation, transfer.members); }
};

// Bandwidth from each device to each other, in 10^9 bytes/s; 0 to itself.
struct PairBandwidths {
  int64_t bytes = 0, wrong = 0;
  std::vector<std::vector<double>> gb_per_s;
};

// What runs here, and with which libraries.
struct Versions {
  std::string libraries;
  std::vector<std::string> devices;  // what each of them is
};

absl::StatusOr<Versions> VersionsOf(const BackendFlags& flags, int devices) {
  Versions versions;
  if (flags.name != "cuda") {
    versions.libraries = absl::StrCat("oneDNN ", cpu::AboutOneDnn().version);
    const HostFacts host = ReadHost();
    const std::string processor = host.processor.empty() ? host.architecture : host.processor;
    versions.devices.assign(devices,
                            absl::StrFormat("thread of %s, %s", base::Counted(host.usable_cores, "core"), processor));
    return versions;
  }
  ASSIGN_OR_RETURN(const cuda::CudaFacts cuda, cuda::AboutCuda());
  versions.libraries = absl::StrFormat("CUDA %s, cuDNN %s, %s", cuda.runtime, cuda.cudnn,
                                       cuda.nccl.empty() ? "no NCCL" : absl::StrCat("NCCL ", cuda.nccl));
  for (int d = 0; d < devices; ++d) {
    const cuda::GpuFacts& gpu = cuda.gpus[d % cuda.gpus.size()];
    versions.devices.push_back(absl::StrFormat("GPU %d, %s, %s", d % cuda.gpus.size(), gpu.pci, gpu.name));
  }
  return versions;
}

absl::StatusOr<std::vector<int>> MembersOf(const TransfersFlags& flags) {
  if (!flags.members.empty()) return flags.members;
  if (flags.backend.name != "cuda") return std::vector<int>{2, 4};
  ASSIGN_OR_RETURN(const tools::Gpus gpus, FindGpus());
  return std::vector<int>{std::max(gpus.count, 2)};
}

// An operation between so many devices, with all its sizes.
struct Sweep {
  std::string operation;
  int members = 2;
};

std::vector<Sweep> SweepsOf(const TransfersFlags& flags, const std::vector<int>& members) {
  std::vector<Sweep> sweeps;
  for (const std::string& what : flags.operations.empty() ? tools::MeasurableTransferNames() : flags.operations) {
    if (tools::IsBetweenTwo(what)) {
      sweeps.push_back({what, 2});
      continue;
    }
    for (int count : members) sweeps.push_back({what, count});
  }
  return sweeps;
}

// Of each size once, as it is rounded.
std::vector<tools::TransferCase> CasesOf(const TransfersFlags& flags, const Sweep& sweep) {
  std::vector<tools::TransferCase> cases;
  for (int64_t size = flags.least_bytes; size <= flags.most_bytes; size *= flags.factor) {
    const int64_t bytes = sweep.operation == "all_gather" ? size / sweep.members : size;
    tools::TransferCase next{.operation = sweep.operation, .members = sweep.members, .bytes = bytes};
    next.bytes = tools::RoundedBytes(next);
    if (cases.empty() || next.bytes > cases.back().bytes) cases.push_back(std::move(next));
  }
  return cases;
}

void PrintHeader(const TransfersFlags& flags, const Versions& versions) {
  PrintLine(absl::StrFormat("# colonnade %s, %s", VersionText(ThisBuild()), versions.libraries));
  PrintLine(absl::StrFormat("# min bytes %d max bytes %d factor %d warm-up %d iterations %d check %d", flags.least_bytes,
                            flags.most_bytes, flags.factor, flags.warm_ups, flags.iterations, flags.checks));
  PrintLine("#");
  PrintLine("# Using devices");
  for (size_t d = 0; d < versions.devices.size(); ++d)
    PrintLine(absl::StrFormat("#  Device %2d: %s", d, versions.devices[d]));
}

void PrintColumns(const Sweep& sweep) {
  WipeOut();
  PrintLine("#");
  PrintLine(absl::StrFormat("# %s, %d devices", sweep.operation, sweep.members));
  PrintLine(absl::StrFormat("# %10s %12s %8s %10s %10s %10s %8s %8s %7s", "size", "count", "type", "time", "p50", "p99",
                            "algbw", "busbw", "#wrong"));
  PrintLine(absl::StrFormat("# %10s %12s %8s %10s %10s %10s %8s %8s", "(B)", "(elements)", "", "(us)", "(us)", "(us)",
                            "(GB/s)", "(GB/s)"));
}

void PrintRow(const TransferRow& row, bool checked) {
  WipeOut();  // on a terminal both streams are one
  PrintLine(absl::StrFormat("  %10d %12d %8s %10.2f %10.2f %10.2f %8.3f %8.3f %7s", row.size(), row.run.bytes / 4, "float",
                            1e6 * row.run.Mean(), 1e6 * row.run.Quantile(0.5), 1e6 * row.run.Quantile(0.99), row.algbw(),
                            row.busbw(), checked ? absl::StrCat(row.run.wrong) : "N/A"));
  if (row.run.wrong > 0) PrintLine(absl::StrCat("# ", row.run.first_wrong));
  std::fflush(stdout);
}

void PrintPairs(const PairBandwidths& pairs) {
  PrintLine("#");
  PrintLine(absl::StrFormat("# %d bytes from device (row) to device (column), one way, GB/s", pairs.bytes));
  std::string line = "   ";
  const size_t count = pairs.gb_per_s.size();
  for (size_t to = 0; to < count; ++to) absl::StrAppendFormat(&line, " %9d", to);
  PrintLine(line);
  for (size_t from = 0; from < count; ++from) {
    line = absl::StrFormat("%3d", from);
    for (size_t to = 0; to < count; ++to) {
      line += from == to ? absl::StrFormat(" %9s", "N/A") : absl::StrFormat(" %9.3f", pairs.gb_per_s[from][to]);
    }
    PrintLine(line);
  }
}

double AverageBusBandwidth(const std::vector<TransferRow>& rows) {
  double sum = 0;
  for (const TransferRow& row : rows) sum += row.busbw();
  return sum / static_cast<double>(std::max<size_t>(rows.size(), 1));
}

Json RowJson(const TransferRow& row, bool checked) {
  return {{"operation", row.transfer.operation},
          {"devices", row.transfer.members},
          {"size_bytes", row.size()},
          {"count", row.run.bytes / 4},
          {"time_us", 1e6 * row.run.Mean()},
          {"p50_us", 1e6 * row.run.Quantile(0.5)},
          {"p99_us", 1e6 * row.run.Quantile(0.99)},
          {"algbw_gb_per_s", row.algbw()},
          {"busbw_gb_per_s", row.busbw()},
          {"wrong", checked ? Json(row.run.wrong) : Json()}};
}

Json PairsJson(const PairBandwidths& pairs) {
  if (pairs.gb_per_s.empty()) return nullptr;
  Json rows = Json::array();
  for (size_t from = 0; from < pairs.gb_per_s.size(); ++from) {
    rows.push_back(pairs.gb_per_s[from]);
    rows.back()[from] = nullptr;
  }
  return {{"size_bytes", pairs.bytes}, {"gb_per_s", std::move(rows)}};
}

// One run of the sub-command.
class Transfers {
 public:
  Transfers(const TransfersFlags& flags, std::vector<int> members) : flags_(flags), members_(std::move(members)) {}

  absl::Status Run() {
    const int devices = *std::max_element(members_.begin(), members_.end());
    ASSIGN_OR_RETURN(versions_, VersionsOf(flags_.backend, devices));
    if (!flags_.json) PrintHeader(flags_, versions_);
    const std::vector<Sweep> sweeps = SweepsOf(flags_, members_);
    for (const Sweep& sweep : sweeps) total_ += static_cast<int64_t>(CasesOf(flags_, sweep).size());
    if (flags_.matrix == "on") total_ += devices * (devices - 1);
    for (const Sweep& sweep : sweeps) {
      if (!flags_.json) PrintColumns(sweep);
      for (const tools::TransferCase& transfer : CasesOf(flags_, sweep)) RETURN_IF_ERROR(RunRow(transfer));
    }
    if (flags_.matrix == "on") RETURN_IF_ERROR(RunPairs(devices));
    return absl::OkStatus();
  }

  const std::vector<TransferRow>& rows() const { return rows_; }

  int64_t wrong() const {
    int64_t sum = pairs_.wrong;
    for (const TransferRow& row : rows_) sum += row.run.wrong;
    return sum;
  }

  void PrintFooter() const {
    if (!pairs_.gb_per_s.empty()) PrintPairs(pairs_);
    PrintLine("#");
    if (flags_.checks > 0) {
      PrintLine(absl::StrFormat("# Out of bounds values : %d %s", wrong(), wrong() == 0 ? "OK" : "FAILED"));
    }
    PrintLine(absl::StrFormat("# Avg bus bandwidth    : %.3f", AverageBusBandwidth(rows_)));
  }

  Json ToJson() const {
    const bool checked = flags_.checks > 0;
    Json json = {{"version", ThisBuild().version}, {"commit", ThisBuild().commit},      {"libraries", versions_.libraries},
                 {"backend", flags_.backend.name}, {"device_names", versions_.devices}, {"iterations", flags_.iterations},
                 {"transfers", Json::array()}};
    for (const TransferRow& row : rows_) json["transfers"].push_back(RowJson(row, checked));
    json["pairs"] = PairsJson(pairs_);
    json["wrong"] = checked ? Json(wrong()) : Json();
    json["average_busbw_gb_per_s"] = AverageBusBandwidth(rows_);
    return json;
  }

 private:
  absl::StatusOr<tools::TransferRun> RunOne(const tools::TransferCase& transfer) {
    progress_.Show(done_, total_, absl::StrCat(", ", transfer.operation));
    ++done_;
    if (flags_.backend.name == "cpu") RETURN_IF_ERROR(base::WithContext(tools::CheckHostMemory(transfer), "--max-bytes"));
    const tools::TransferOptions options{.checks = flags_.checks, .warm_ups = flags_.warm_ups, .repeats = flags_.iterations};
    return tools::RunTransfer(transfer, options,
                              [&](int devices) { return OpenBackend(flags_.backend, devices, 1, /*times_tasks=*/true); });
  }

  absl::Status RunRow(const tools::TransferCase& transfer) {
    TransferRow row{.transfer = transfer};
    ASSIGN_OR_RETURN(row.run, RunOne(row.transfer));
    if (!flags_.json) PrintRow(row, flags_.checks > 0);
    rows_.push_back(std::move(row));
    return absl::OkStatus();
  }

  absl::Status RunPairs(int devices) {
    pairs_.gb_per_s.assign(devices, std::vector<double>(devices));
    for (int from = 0; from < devices; ++from) {
      for (int to = 0; to < devices; ++to) {
        if (from == to) continue;
        ASSIGN_OR_RETURN(const tools::TransferRun run, RunOne({.operation = "exchange",
                                                               .members = devices,
                                                               .bytes = flags_.most_bytes,
                                                               .from = from,
                                                               .to = to,
                                                               .one_way = true}));
        pairs_.bytes = run.bytes;
        pairs_.wrong += run.wrong;
        pairs_.gb_per_s[from][to] = static_cast<double>(run.bytes) / run.Quantile(0.5) / 1e9;
      }
    }
    return absl::OkStatus();
  }

  const TransfersFlags& flags_;
  const std::vector<int> members_;
  Versions versions_;
  std::vector<TransferRow> rows_;
  PairBandwidths pairs_;
  CountProgress progress_{"transfer"};
  int64_t done_ = 0, total_ = 0;
};

absl::Status RunBenchTransfers(const TransfersFlags& flags, Outcome& outcome) {
  if (flags.least_bytes > flags.most_bytes) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--min-bytes: expected at most --max-bytes=%d, found %d", flags.most_bytes, flags.least_bytes));
  }
  RETURN_IF_ERROR(CheckBackend(flags.backend));
  ASSIGN_OR_RETURN(std::vector<int> members, MembersOf(flags));
  Transfers transfers(flags, std::move(members));
  const absl::Status ran = transfers.Run();
  if (!ran.ok() && transfers.rows().empty()) return ran;
  if (flags.json) {
    PrintJson(transfers.ToJson());
  } else {
    WipeOut();
    transfers.PrintFooter();
  }
  outcome.disagrees = transfers.wrong() > 0;
  return ran;
}

}  // namespace

SubCommand AddBenchTransfers(CLI::App& bench, Outcome& outcome) {
  CLI::App* transfers = bench.add_subcommand(
      "transfers",
      "Transfers between devices: time, algbw, busbw and wrong elements as nccl-tests prints them, and all pairs.");
  const auto flags = std::make_shared<TransfersFlags>();
  transfers->add_option("--operation", flags->operations, "transfers that are timed (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember(tools::MeasurableTransferNames()));
  transfers->add_option("-b,--min-bytes", flags->least_bytes, "smallest size; of all-gathers that of the result")
      ->transform(ByteSize())
      ->default_str("4K");
  transfers->add_option("-e,--max-bytes", flags->most_bytes, "largest size, and that of the pairs")
      ->transform(ByteSize())
      ->default_str("64M");
  transfers->add_option("-f,--factor", flags->factor, "ratio of each size to the one before it")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
      ->capture_default_str();
  transfers
      ->add_option("-g,--devices", flags->members,
                   "numbers of devices, 2,4 (default: 2,4; on GPUs as many as there are, at least 2)")
      ->delimiter(',')
      ->check(CLI::Range(2, tools::kMostDevicesHere));
  transfers->add_option("-n,--iterations", flags->iterations, "runs that are timed, of each size")
      ->check(CLI::Range(1, kMostIterations))
      ->capture_default_str();
  transfers->add_option("-w,--warm-up", flags->warm_ups, "runs before them that are not timed")
      ->check(CLI::Range(0, kMostIterations))
      ->capture_default_str();
  transfers->add_option("-c,--check", flags->checks, "runs, each of other data, whose results are compared; 0: none")
      ->check(CLI::Range(0, kMostIterations))
      ->capture_default_str();
  transfers->add_option("--matrix", flags->matrix, "on: also every device to every other, as nvbandwidth prints it")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  AddTransferFlags(*transfers, flags->backend);
  AddJsonFlag(*transfers, flags->json);
  transfers->footer(
      "Examples:\n  colonnade bench transfers --operation=all_reduce -b 8 -e 128M -f 2 -g 4\n"
      "  colonnade bench transfers --backend=cuda --json");
  return {transfers, [=, &outcome] { return RunBenchTransfers(*flags, outcome); }};
}

}  // namespace colonnade::cli
