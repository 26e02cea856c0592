#include "tools/transfers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cpu/backend.h"
#include "engine/executor.h"
#include "nlohmann/json.hpp"
#include "program/builder.h"
#include "program/json_text.h"
#include "program/status_macros.h"

namespace colonnade::tools {
namespace {

constexpr int kDeepestBenchmark = 8;  // of JSON

using program::Task;

// Each device sends a pattern of its own; what must be there afterwards is known.
class TransferProgram {
 public:
  static constexpr int64_t kSliceChannels = 32, kSide = 8, kPixels = kSide * kSide;

  static absl::StatusOr<program::Program> Make(const std::string& what, int members, int64_t elements) {
    program::Builder builder("transfer", program::Mode::kTrain, 1, program::DType::kF32, {{"data", members}});
    std::vector<int> devices;
    std::vector<program::Member> sides;
    const auto kind = KindOf(what);
    if (what == "channel_slice") return MakeSlices(std::move(builder), elements);
    if (what != "exchange" && !kind) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "a transfer \"%s\": expected exchange, channel_slice, all_gather, reduce_scatter or all_reduce", what));
    }
    const bool gathers = kind == program::CollectiveKind::kAllGather,
               scatters = kind == program::CollectiveKind::kReduceScatter;
    for (int d = 0; d < members; ++d) {
      const auto persistent = program::Lifetime::kPersistent;
      const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, {elements}, persistent);
      const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32,
                                                    {gathers    ? elements * members
                                                     : scatters ? elements / members
                                                                : elements},
                                                    persistent);
      devices.push_back(d);
      if (what == "exchange" || gathers || scatters) {
        sides.push_back({{builder.Read(x), builder.Write(y)}, {.bytes_sent = elements * 4}});
      } else {
        sides.push_back({{builder.Accumulate(x)}, {.bytes_sent = elements * 4}});
      }
    }
    if (what == "exchange") {
      builder.AddExchange(0, sides[0], 1, sides[1], program::Lane::kComm, {"transfer"});
    } else {
      builder.AddCollective(builder.AddGroup(devices), {.kind = *kind}, std::move(sides), program::Lane::kComm,
                            {"transfer"});
    }
    return std::move(builder).Build();
  }

  // Half the channels of images go to the other half of the peer's: runs of memory with gaps between them on both sides.
  static program::Program MakeSlices(program::Builder builder, int64_t elements) {
    const program::Shape whole = {std::max<int64_t>(elements / (kSliceChannels * kPixels), 1), 2 * kSliceChannels, kSide,
                                  kSide};
    program::Shape half = whole;
    half[1] = kSliceChannels;
    std::vector<program::Member> sides;
    for (int d = 0; d < 2; ++d) {
      const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, whole, program::Lifetime::kPersistent);
      const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32, whole, program::Lifetime::kPersistent);
      sides.push_back({{{x, {{0, 0, 0, 0}, half}, program::Access::kRead},
                        {y, {{0, kSliceChannels, 0, 0}, half}, program::Access::kWrite}},
                       {.bytes_sent = program::ElementCount(half) * 4}});
    }
    builder.AddExchange(0, sides[0], 1, sides[1], program::Lane::kComm, {"transfer"});
    return std::move(builder).Build();
  }

  static std::optional<program::CollectiveKind> KindOf(const std::string& what) {
    for (auto kind : {program::CollectiveKind::kAllGather, program::CollectiveKind::kReduceScatter,
                      program::CollectiveKind::kAllReduce}) {
      if (what == program::Name(kind)) return kind;
    }
    return std::nullopt;
  }

  // x of device d is d + 1 everywhere.
  static absl::Status Check(const std::string& what, int members, const program::Program& program,
                            const engine::LoadedProgram& loaded) {
    const double sum = members * (members + 1) / 2.0;
    for (const program::Buffer& buffer : program.buffers) {
      const bool in_place = what == "all_reduce";
      if (buffer.name != (in_place ? "x" : "y")) continue;
      std::vector<double> values(program::ElementCount(buffer.shape));
      RETURN_IF_ERROR(loaded.Read(buffer.id, absl::MakeSpan(values)));
      for (size_t i = 0; i < values.size(); ++i) {
        double expected = sum;
        if (what == "exchange") expected = 2 - buffer.device;
        if (what == "channel_slice") expected = i / (kSliceChannels * kPixels) % 2 == 1 ? 2 - buffer.device : 0;
        if (what == "all_gather") expected = 1 + static_cast<double>(i * members / values.size());
        if (values[i] != expected) {
          return absl::InternalError(absl::StrFormat("%s between %d devices: element %d of device %d: expected %g, found %g",
                                                     what, members, i, buffer.device, expected, values[i]));
        }
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

const std::vector<std::string>& TransferNames() {
  static const std::vector<std::string>* const names =
      new std::vector<std::string>{"exchange", "channel_slice", "all_gather", "reduce_scatter", "all_reduce"};
  return *names;
}

absl::StatusOr<std::unique_ptr<engine::Backend>> CpuDevices(int devices) {
  return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1});
}

absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats,
                                             const BackendMaker& make_backend) {
  const int64_t elements = std::max<int64_t>(bytes / 4 / members, 1) * members;
  ASSIGN_OR_RETURN(program::Program program, TransferProgram::Make(what, members, elements));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend, make_backend(members));
  const engine::HostSlot slots[2] = {};
  ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedProgram> loaded, backend->Load(program, slots));
  for (const program::Buffer& buffer : program.buffers) {
    const std::vector<double> pattern(program::ElementCount(buffer.shape), buffer.name == "x" ? buffer.device + 1 : 0);
    RETURN_IF_ERROR(loaded->Write(buffer.id, pattern));
  }
  std::vector<double> seconds;
  for (int step = 0; step < repeats + 1; ++step) {
    for (const Task& task : program.tasks) loaded->Launch(task.id, step);
    RETURN_IF_ERROR(loaded->Synchronize(step));
    if (step == 0) {
      RETURN_IF_ERROR(TransferProgram::Check(what, members, program, *loaded));
      continue;
    }
    absl::Duration start = -absl::InfiniteDuration(), end = start;
    for (const engine::TaskTime& time : loaded->Times(step)) {
      start = std::max(start, time.start);
      end = std::max(end, time.end);
    }
    seconds.push_back(absl::ToDoubleSeconds(end - start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2), seconds.end());
  return TransferTime{what, members, static_cast<double>(elements * 4), std::max(1e-9, seconds[seconds.size() / 2])};
}

absl::StatusOr<std::vector<TransferTime>> ReadTransfers(absl::string_view json) {
  ASSIGN_OR_RETURN(const nlohmann::json file, program::ParseJson<nlohmann::json>(json, kDeepestBenchmark));
  if (!file.is_object() || !file.contains("benchmarks") || !file["benchmarks"].is_array()) {
    return absl::InvalidArgumentError("expected the JSON of bench/transfers: an object with a list \"benchmarks\"");
  }
  std::vector<TransferTime> transfers;
  for (const nlohmann::json& entry : file["benchmarks"]) {
    const std::string name = entry.is_object() ? entry.value("name", "") : "";
    if (entry.is_object() && entry.contains("error_occurred")) {
      return absl::InvalidArgumentError(absl::StrFormat("benchmark \"%s\" has ended with an error", name));
    }
    const std::vector<std::string> parts = absl::StrSplit(name, '/');  // what/members/total bytes/…
    TransferTime transfer;
    double total = 0;
    const bool named = parts.size() >= 3 && absl::SimpleAtoi(parts[1], &transfer.members) && transfer.members > 1 &&
                       absl::SimpleAtod(parts[2], &total) && total > 0;
    const auto number = entry.find("real_time");
    if (!named || number == entry.end() || !number->is_number() || entry.value("time_unit", "") != "us" ||
        number->get<double>() <= 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "benchmark \"%s\": expected a name as all_reduce/2/4096 and a positive \"real_time\" in \"us\"", name));
    }
    transfer.what = parts[0];
    transfer.bytes = transfer.what == "all_gather" ? total / transfer.members : total;
    transfer.seconds = number->get<double>() * 1e-6;
    transfers.push_back(std::move(transfer));
  }
  if (transfers.empty()) return absl::InvalidArgumentError("expected at least one benchmark, found none");
  return transfers;
}

}  // namespace colonnade::tools
