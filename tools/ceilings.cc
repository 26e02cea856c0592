#include "tools/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "program/builder.h"

namespace colonnade::tools {
namespace {

using program::BufferId;
using program::DType;

constexpr int kRepeats = 5;
constexpr int64_t kLeastSide = 256, kMostSide = 8192;
constexpr double kLongProduct = 0.05;      // seconds: larger ones are no faster
constexpr int64_t kLeastArray = 32 << 20;  // bytes
constexpr int kArrays = 3, kTimesTheCaches = 4;
constexpr int64_t kMostBytes = int64_t{2} << 30;  // of all arrays, unless kLeastArray asks for more

// The same task on every device of a backend.
class Everywhere {
 public:
  Everywhere(const engine::Backend& backend, DType dtype)
      : devices_(backend.device_count()),
        dtype_(dtype),
        builder_("ceiling", program::Mode::kTrain, 1, dtype, {{"data", devices_}}) {}

  void Add(const program::Op& op, const std::vector<program::Shape>& reads, const program::Shape& writes, int64_t flops) {
    for (int d = 0; d < devices_; ++d) {
      program::Uses uses;
      for (const program::Shape& shape : reads)
        uses.push_back(builder_.Read(builder_.AddBuffer(d, absl::StrCat("x", uses.size()), dtype_, shape)));
      uses.push_back(builder_.Write(builder_.AddBuffer(d, "y", dtype_, writes)));
      builder_.AddCompute(d, program::Lane::kCompute, op, uses, flops, {"ceiling"});
    }
  }
  program::Program Build() && { return std::move(builder_).Build(); }

 private:
  const int devices_;
  const DType dtype_;
  program::Builder builder_;
};

// All elements of any floating-point type are 0.75 or nearly so, and every page is there.
absl::Status Fill(const program::Program& program, engine::LoadedProgram& loaded) {
  std::vector<char> bytes;
  for (const program::Buffer& buffer : program.buffers) {
    bytes.resize(program::ElementCount(buffer.shape) * program::SizeInBytes(buffer.dtype), 0x3F);
    RETURN_IF_ERROR(loaded.WriteBytes(buffer.id, bytes));
  }
  return absl::OkStatus();
}

// Returns the seconds of the slowest device in the fastest of some runs.
absl::StatusOr<double> SecondsOf(const program::Program& program, engine::Backend& backend) {
  const engine::HostSlot slots[2] = {};
  ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedProgram> loaded, backend.Load(program, slots));
  RETURN_IF_ERROR(Fill(program, *loaded));
  double seconds = std::numeric_limits<double>::infinity();
  for (int64_t step = 0; step < kRepeats; ++step) {
    loaded->Fence();
    for (const program::Task& task : program.tasks) loaded->Launch(task.id, step);
    RETURN_IF_ERROR(loaded->Synchronize(step));
    double slowest = 1e-9;
    for (const engine::TaskTime& time : loaded->Times(step)) {
      slowest = std::max(slowest, absl::ToDoubleSeconds(time.end - time.start));
    }
    seconds = std::min(seconds, slowest);
  }
  return seconds;
}

absl::StatusOr<double> SecondsOfProduct(int64_t side, engine::Backend& backend, DType dtype) {
  Everywhere products(backend, dtype);
  products.Add(program::FullyConnectedForward{}, {{side, side}, {side, side}}, {side, side}, 2 * side * side * side);
  const program::Program program = std::move(products).Build();
  return SecondsOf(program, backend);
}

absl::Status MeasureProducts(engine::Backend& backend, DType dtype, Ceilings& ceilings) {
  double seconds = 0;
  for (int64_t side = kLeastSide; side <= kMostSide && seconds < kLongProduct; side *= 2) {
    ASSIGN_OR_RETURN(seconds, SecondsOfProduct(side, backend, dtype));
    const double rate = 2.0 * static_cast<double>(side * side * side) / seconds;
    if (rate > ceilings.flops_per_sec) ceilings.flops_per_sec = rate, ceilings.side = side;
  }
  return absl::OkStatus();
}

// Returns the host's; those of GPUs are smaller than kLeastArray.
int64_t CacheBytes() { return std::max<int64_t>(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0); }

absl::Status MeasureSum(engine::Backend& backend, Ceilings& ceilings) {
  const int64_t arrays = kArrays * backend.device_count();
  ceilings.array_bytes = std::max(kLeastArray, std::min(kTimesTheCaches * CacheBytes(), kMostBytes) / arrays) / 64 * 64;
  const int64_t elements = ceilings.array_bytes / program::SizeInBytes(DType::kF32);
  Everywhere sums(backend, DType::kF32);
  sums.Add(program::Sum{}, {{elements}, {elements}}, {elements}, elements);
  const program::Program program = std::move(sums).Build();
  ASSIGN_OR_RETURN(const double seconds, SecondsOf(program, backend));
  ceilings.bytes_per_sec = kArrays * static_cast<double>(ceilings.array_bytes) / seconds;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ceilings> MeasureCeilings(engine::Backend& backend, DType dtype) {
  Ceilings ceilings;
  RETURN_IF_ERROR(MeasureProducts(backend, dtype, ceilings));
  RETURN_IF_ERROR(MeasureSum(backend, ceilings));
  return ceilings;
}

}  // namespace colonnade::tools
