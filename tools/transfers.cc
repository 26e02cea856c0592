#include "tools/transfers.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "cpu/backend.h"
#include "engine/executor.h"
#include "engine/json_fields.h"
#include "engine/machine_quantities.h"
#include "engine/statistics.h"
#include "nlohmann/json.hpp"
#include "program/builder.h"

namespace colonnade::tools {
namespace {

constexpr int kDeepestJson = 8;

using program::Task;

constexpr int64_t kElementBytes = 4;  // fp32
constexpr int64_t kSliceChannels = 32, kSide = 8, kPixels = kSide * kSide;
constexpr double kNothing = -1;  // what results hold before a check

std::optional<program::CollectiveKind> KindOf(const std::string& what) {
  for (program::CollectiveKind kind : program::kCollectiveKinds) {
    if (what == program::Name(kind)) return kind;
  }
  return std::nullopt;
}

// An operand of one transfer. Sums over some hundred devices are exact in fp32.
double PatternAt(int device, int64_t element, int check) {
  return 256.0 * (device + 1) + static_cast<double>((element + 37 * check) % 251);
}

// Element `i` of the result on `device`.
class Expected {
 public:
  Expected(const TransferCase& transfer, int64_t elements) : transfer_(transfer), elements_(elements) {}

  double At(int device, int64_t i, int check) const {
    const std::string& what = transfer_.operation;
    const int peer = device == transfer_.from ? transfer_.to : transfer_.from;
    if (what == "exchange") return Receives(device) ? PatternAt(peer, i, check) : kNothing;
    if (what == "channel_slice") {
      const int64_t half = kSliceChannels * kPixels;
      return i / half % 2 == 1 ? PatternAt(peer, i - half, check) : kNothing;
    }
    if (what == "all_gather") return PatternAt(static_cast<int>(i / elements_), i % elements_, check);
    const int64_t first = what == "reduce_scatter" ? device * (elements_ / transfer_.members) : 0;
    double sum = 0;
    for (int d = 0; d < transfer_.members; ++d) sum += PatternAt(d, first + i, check);
    return sum;
  }

 private:
  bool Receives(int device) const { return device == transfer_.to || (device == transfer_.from && !transfer_.one_way); }

  const TransferCase& transfer_;
  const int64_t elements_;
};

// What is asked for, rounded down to what each member can move as much of: elements, or whole slices of images.
int64_t ElementsOf(const TransferCase& transfer) {
  const int64_t unit = transfer.operation == "channel_slice" ? kSliceChannels * kPixels : transfer.members;
  return std::max<int64_t>(transfer.bytes / kElementBytes / unit, 1) * unit;
}

// Half the channels of images go to the other half of the peer's: runs of memory with gaps between them on both sides.
std::vector<program::Member> SliceSides(program::Builder& builder, int64_t elements) {
  const program::Shape whole = {elements / (kSliceChannels * kPixels), 2 * kSliceChannels, kSide, kSide};
  program::Shape half = whole;
  half[1] = kSliceChannels;
  std::vector<program::Member> sides;
  for (int d = 0; d < 2; ++d) {
    const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, whole, program::Lifetime::kPersistent);
    const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32, whole, program::Lifetime::kPersistent);
    sides.push_back({{{x, {{0, 0, 0, 0}, half}, program::Access::kRead},
                      {y, {{0, kSliceChannels, 0, 0}, half}, program::Access::kWrite}},
                     {.bytes_sent = program::ElementCount(half) * kElementBytes}});
  }
  return sides;
}

std::vector<program::Member> ExchangeSides(program::Builder& builder, const TransferCase& transfer, int64_t elements) {
  std::vector<program::Member> sides;
  for (int d : {transfer.from, transfer.to}) {
    const bool sends = d == transfer.from || !transfer.one_way, receives = d == transfer.to || !transfer.one_way;
    program::Member side;
    if (sends) {
      side.uses.push_back(
          builder.Read(builder.AddBuffer(d, "x", program::DType::kF32, {elements}, program::Lifetime::kPersistent)));
      side.work.bytes_sent = elements * kElementBytes;
    }
    if (receives) {
      side.uses.push_back(
          builder.Write(builder.AddBuffer(d, "y", program::DType::kF32, {elements}, program::Lifetime::kPersistent)));
    }
    sides.push_back(std::move(side));
  }
  return sides;
}

std::vector<program::Member> CollectiveSides(program::Builder& builder, program::CollectiveKind kind, int members,
                                             int64_t elements) {
  std::vector<program::Member> sides;
  for (int d = 0; d < members; ++d) {
    const program::BufferId x = builder.AddBuffer(d, "x", program::DType::kF32, {elements}, program::Lifetime::kPersistent);
    if (kind == program::CollectiveKind::kAllReduce) {
      sides.push_back({{builder.Accumulate(x)}, {.bytes_sent = elements * kElementBytes}});
      continue;
    }
    const int64_t result = kind == program::CollectiveKind::kAllGather ? elements * members : elements / members;
    const program::BufferId y = builder.AddBuffer(d, "y", program::DType::kF32, {result}, program::Lifetime::kPersistent);
    sides.push_back({{builder.Read(x), builder.Write(y)}, {.bytes_sent = elements * kElementBytes}});
  }
  return sides;
}

absl::StatusOr<program::Program> MakeProgram(const TransferCase& transfer, int64_t elements) {
  const std::vector<std::string>& names = MeasurableTransferNames();
  if (std::find(names.begin(), names.end(), transfer.operation) == names.end()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("a transfer \"%s\": expected one of %s", transfer.operation, absl::StrJoin(names, ", ")));
  }
  program::Builder builder("transfer", program::Mode::kTrain, 1, program::DType::kF32, {{"data", transfer.members}});
  if (const auto kind = KindOf(transfer.operation)) {
    std::vector<int> devices(transfer.members);
    std::iota(devices.begin(), devices.end(), 0);
    builder.AddCollective(builder.AddGroup(devices), {.kind = *kind},
                          CollectiveSides(builder, *kind, transfer.members, elements), program::Lane::kComm, {"transfer"});
  } else {
    std::vector<program::Member> sides =
        transfer.operation == "exchange" ? ExchangeSides(builder, transfer, elements) : SliceSides(builder, elements);
    builder.AddExchange(transfer.from, sides[0], transfer.to, sides[1], program::Lane::kComm, {"transfer"});
  }
  return std::move(builder).Build();
}

// One Program on its devices.
class LoadedTransfer {
 public:
  LoadedTransfer(const TransferCase& transfer, int64_t elements, const program::Program& program,
                 engine::LoadedProgram& loaded)
      : transfer_(transfer), expected_(transfer, elements), program_(program), loaded_(loaded) {}

  absl::Status Check(int check, TransferRun& run) {
    for (const program::Buffer& buffer : program_.buffers) {
      std::vector<double> values(program::ElementCount(buffer.shape), kNothing);
      if (buffer.name == "x") {
        for (size_t i = 0; i < values.size(); ++i) values[i] = PatternAt(buffer.device, static_cast<int64_t>(i), check);
      }
      RETURN_IF_ERROR(loaded_.Write(buffer.id, values));
    }
    RETURN_IF_ERROR(Step());
    for (const program::Buffer& buffer : program_.buffers) {
      if (buffer.name != (transfer_.operation == "all_reduce" ? "x" : "y")) continue;
      RETURN_IF_ERROR(Compare(buffer, check, run));
    }
    return absl::OkStatus();
  }

  absl::Status Step() {
    loaded_.Fence();
    for (const Task& task : program_.tasks) loaded_.Launch(task.id, step_);
    return loaded_.Synchronize(step_++);
  }

  // Returns how long the transfer of the last step took.
  double Seconds() const {
    absl::Duration start = -absl::InfiniteDuration(), end = start;
    for (const engine::TaskTime& time : loaded_.Times(step_ - 1)) {
      start = std::max(start, time.start);
      end = std::max(end, time.end);
    }
    return std::max(1e-9, absl::ToDoubleSeconds(end - start));
  }

 private:
  absl::Status Compare(const program::Buffer& buffer, int check, TransferRun& run) const {
    std::vector<double> values(program::ElementCount(buffer.shape));
    RETURN_IF_ERROR(loaded_.Read(buffer.id, absl::MakeSpan(values)));
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = expected_.At(buffer.device, static_cast<int64_t>(i), check);
      if (values[i] == expected) continue;
      if (++run.wrong > 1) continue;
      run.first_wrong = absl::StrFormat("%s between %d devices: element %d of device %d: expected %g, found %g",
                                        transfer_.operation, transfer_.members, i, buffer.device, expected, values[i]);
    }
    return absl::OkStatus();
  }

  const TransferCase& transfer_;
  const Expected expected_;
  const program::Program& program_;
  engine::LoadedProgram& loaded_;
  int64_t step_ = 0;
};

// The bounds of a profile, which takes what is read here; times are in microseconds.
constexpr engine::Bounds kMemberCounts{2, program::kMostDevices, ""}, kSizes{1, 1e18, "byte"},
    kMicroseconds{1e-6, 1e11, "us"};

TransferTime ReadTransfer(const nlohmann::json& entry, const std::string& place, absl::Status& status) {
  TransferTime transfer;
  engine::JsonFields fields(entry, place, status);
  double size = 0, microseconds = 0, wrong = 0;
  fields.Word("operation", MeasurableTransferNames(), transfer.operation);
  fields.Count("devices", transfer.members, true, kMemberCounts);
  fields.Number("size_bytes", size, true, kSizes);
  fields.Number("p50_us", microseconds, true, kMicroseconds);
  const nlohmann::json* checked = fields.Find("wrong");
  if (checked != nullptr && !checked->is_null()) fields.Number("wrong", wrong, true, engine::kAnyNumber);
  if (wrong > 0) fields.Fail("wrong", "no wrong results", *checked);
  transfer.bytes = transfer.operation == "all_gather" ? size / transfer.members : size;
  transfer.seconds = microseconds * 1e-6;
  if (status.ok() && transfer.bytes * 1e6 > engine::kLinkRates.most * microseconds) {
    fields.Fail("p50_us",
                absl::StrFormat("a time in which %g bytes move at %g byte/s or less", size, engine::kLinkRates.most),
                entry["p50_us"]);
  }
  return transfer;
}

}  // namespace

double TransferRun::Mean() const { return engine::Mean(seconds); }

double TransferRun::Quantile(double fraction) const { return engine::Quantile(seconds, fraction); }

const std::vector<std::string>& MeasurableTransferNames() {
  static const std::vector<std::string>* const names =
      new std::vector<std::string>{"exchange", "channel_slice", "all_gather", "reduce_scatter", "all_reduce"};
  return *names;
}

bool IsBetweenTwo(const std::string& transfer) { return transfer == "exchange" || transfer == "channel_slice"; }

absl::StatusOr<std::unique_ptr<engine::Backend>> CpuDevices(int devices) {
  return cpu::MakeCpuBackend({.devices = devices, .threads_per_device = 1});
}

int64_t RoundedBytes(const TransferCase& transfer) { return kElementBytes * ElementsOf(transfer); }

absl::StatusOr<TransferRun> RunTransfer(const TransferCase& transfer, const TransferOptions& options,
                                        const BackendMaker& make_backend) {
  const int64_t elements = ElementsOf(transfer);
  ASSIGN_OR_RETURN(const program::Program program, MakeProgram(transfer, elements));
  ASSIGN_OR_RETURN(std::unique_ptr<engine::Backend> backend, make_backend(transfer.members));
  const engine::HostSlot slots[2] = {};
  ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedProgram> loaded, backend->Load(program, slots));
  LoadedTransfer one(transfer, elements, program, *loaded);
  TransferRun run{.bytes = RoundedBytes(transfer)};
  for (int check = 0; check < options.checks; ++check) RETURN_IF_ERROR(one.Check(check, run));
  for (int step = -options.warm_ups; step < options.repeats; ++step) {
    RETURN_IF_ERROR(one.Step());
    if (step >= 0) run.seconds.push_back(one.Seconds());
  }
  return run;
}

absl::Status CheckHostMemory(const TransferCase& transfer, int64_t available) {
  ASSIGN_OR_RETURN(const program::Program program, MakeProgram(transfer, ElementsOf(transfer)));
  const int64_t needed = LeastBytesOf({&program});
  if (needed <= available) return absl::OkStatus();
  const std::string what =
      absl::StrFormat("%s of %d bytes on %d devices", transfer.operation, transfer.bytes, transfer.members);
  return NotEnoughMemory(what, needed, available, "use fewer bytes or devices");
}

absl::StatusOr<TransferTime> MeasureTransfer(const std::string& what, int members, int64_t bytes, int repeats,
                                             const BackendMaker& make_backend) {
  ASSIGN_OR_RETURN(const TransferRun run, RunTransfer({.operation = what, .members = members, .bytes = bytes},
                                                      {.warm_ups = 0, .repeats = repeats}, make_backend));
  if (run.wrong > 0) return absl::InternalError(run.first_wrong);
  return TransferTime{what, members, static_cast<double>(run.bytes), run.Quantile(0.5)};
}

int64_t SizeOf(const TransferCase& transfer, int64_t bytes) {
  return transfer.operation == "all_gather" ? bytes * transfer.members : bytes;
}

double BusFactor(const std::string& what, int members) {
  const double n = members;
  if (what == "all_reduce") return 2 * (n - 1) / n;
  return IsBetweenTwo(what) ? 1 : (n - 1) / n;
}

absl::StatusOr<std::vector<TransferTime>> ReadTransfers(absl::string_view json) {
  ASSIGN_OR_RETURN(const nlohmann::json file, base::ParseJson<nlohmann::json>(json, kDeepestJson));
  if (!file.is_object() || !file.contains("transfers") || !file["transfers"].is_array()) {
    return absl::InvalidArgumentError("expected the JSON of colonnade bench transfers: an object with a list \"transfers\"");
  }
  std::vector<TransferTime> transfers;
  for (const nlohmann::json& entry : file["transfers"]) {
    absl::Status status;
    transfers.push_back(ReadTransfer(entry, absl::StrFormat("transfers[%d]", transfers.size()), status));
    RETURN_IF_ERROR(status);
  }
  if (transfers.empty()) return absl::InvalidArgumentError("expected at least one transfer, found none");
  return transfers;
}

}  // namespace colonnade::tools
