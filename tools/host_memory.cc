#include "tools/host_memory.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "engine/control_groups.h"
#include "engine/layouts.h"
#include "program/memory.h"

namespace colonnade::tools {
namespace {

constexpr double kGigabyte = 1e9;
constexpr int kHostSlots = 2;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number behind `key` in lines of "key number"; the fallback if there is none.
int64_t NumberAfter(const std::string& text, absl::string_view key, int64_t fallback) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) return value;
  }
  return fallback;
}

int64_t NumberIn(const std::string& path, int64_t fallback) {
  int64_t value = 0;
  return absl::SimpleAtoi(Contents(path), &value) ? value : fallback;  // "max" is no number
}

// What the group in this folder leaves; version 1 has other names for the same.
int64_t LeftByGroup(const std::string& folder) {
  for (const auto& [limit_file, used_file, droppable_key] :
       {std::tuple("/memory.max", "/memory.current", "inactive_file"),
        {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}}) {
    const int64_t limit = NumberIn(folder + limit_file, kUnlimitedMemory), used = NumberIn(folder + used_file, -1);
    if (limit == kUnlimitedMemory || used < 0) continue;
    // Counted at another moment than what is used, of which it may be more.
    const int64_t droppable = std::min(used, NumberAfter(Contents(folder + "/memory.stat"), droppable_key, 0));
    return std::max<int64_t>(0, limit - (used - droppable));
  }
  return kUnlimitedMemory;
}

// What `ulimit -v` leaves of the addresses of this process.
int64_t LeftOfAddresses(const std::string& root) {
  const std::string limits = Contents(root + "/proc/self/limits");
  for (const absl::string_view line : absl::StrSplit(limits, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t limit = 0;
    if (!absl::StartsWith(line, "Max address space") || !absl::SimpleAtoi(words[3], &limit)) continue;  // "unlimited"
    const int64_t used = NumberAfter(Contents(root + "/proc/self/status"), "VmSize:", 0) * 1024;
    return std::max<int64_t>(0, limit - used);
  }
  return kUnlimitedMemory;
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  const int64_t kilobytes = NumberAfter(Contents(root + "/proc/meminfo"), "MemAvailable:", -1);
  int64_t available = std::min(kilobytes < 0 ? kUnlimitedMemory : kilobytes * 1024, LeftOfAddresses(root));
  for (const std::string& folder :
       engine::ControlGroupFolders("memory", root + "/proc/self/cgroup", root + "/sys/fs/cgroup")) {
    available = std::min(available, LeftByGroup(folder));
  }
  return available;
}

int64_t LeastBytesOf(absl::Span<const program::Program* const> programs) {
  int64_t bytes = 0;
  std::map<int, int64_t> step;  // by device: of the largest Program
  // By device and name: tensors, and buckets of which a device holds a part.
  std::map<std::pair<int, std::string>, int64_t> persistent;
  for (const program::Program* program : programs) {
    const auto size_of = [&](const program::Buffer& buffer) { return program::DenseSizeOf(*program, buffer); };
    const std::vector<int64_t> step_bytes = program::PlaceBuffers(*program, size_of).step_bytes;
    for (int d = 0; d < program->device_count; ++d) step[d] = std::max(step[d], step_bytes[d]);
    for (const program::Buffer& buffer : program->buffers) {
      const auto* bucket = std::get_if<program::Bucket>(&buffer.storage);
      const bool in_part = bucket != nullptr && bucket->held_parts < bucket->parts;
      const bool whole = engine::IsPersistentTensor(buffer) && !program::IsPartlyHeld(*program, buffer.id);
      if (buffer.lifetime != program::Lifetime::kPersistent || !(in_part || whole)) continue;
      persistent[{buffer.device, buffer.name}] = size_of(buffer);
    }
    for (const program::Input& input : program->inputs) {
      bytes += kHostSlots * program::ElementCount(input.shape) * program::SizeInBytes(input.host_dtype);
    }
  }
  for (const auto& [device, size] : step) bytes += size;
  for (const auto& [key, size] : persistent) bytes += size;
  return bytes;
}

absl::Status NotEnoughMemory(const std::string& what, int64_t needed, int64_t available, const std::string& advice) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s needs at least %.1f GB of this machine's memory, %.1f GB are free; %s", what,
                      static_cast<double>(needed) / kGigabyte, static_cast<double>(available) / kGigabyte, advice));
}

absl::Status CheckHostMemory(int64_t needed, int64_t batch, int64_t multiple,
                             const std::function<absl::StatusOr<int64_t>(int64_t batch)>& bytes_of, int64_t available) {
  if (needed <= available) return absl::OkStatus();
  std::string advice = "use a smaller network or a machine with more memory";
  const absl::StatusOr<int64_t> least = bytes_of(multiple);
  if (least.ok() && *least <= available && batch > multiple) {
    // Bytes grow nearly in proportion to the batch, beside what does not depend on it.
    const double per_image = static_cast<double>(needed - *least) / static_cast<double>(batch - multiple);
    double guess = static_cast<double>(multiple) + static_cast<double>(available - *least) / per_image;
    absl::StatusOr<int64_t> bytes = *least;
    int64_t fitting = multiple;
    for (int attempt = 0; attempt < 4; ++attempt, guess *= 0.9) {
      const int64_t rounded = std::max<int64_t>(1, static_cast<int64_t>(guess) / multiple) * multiple;
      bytes = bytes_of(rounded);
      if (!bytes.ok() || *bytes > available) continue;
      fitting = rounded;
      break;
    }
    advice = absl::StrFormat("a batch of %d would fit", fitting);
  }
  return NotEnoughMemory(absl::StrCat("batch: ", batch), needed, available, advice);
}

absl::Status CheckHostMemory(const layers::LayerGraph& graph, const partition::Plan& plan, partition::LowerOptions lower,
                             int64_t available) {
  const int64_t batch = lower.global_batch;
  const auto bytes_of = [&](int64_t other) -> absl::StatusOr<int64_t> {
    lower.global_batch = other;
    ASSIGN_OR_RETURN(const program::Program program, partition::Lower(graph, plan, lower));
    return LeastBytesOf({&program});
  };
  ASSIGN_OR_RETURN(const int64_t needed, bytes_of(batch));
  return CheckHostMemory(needed, batch, plan.mesh.device_count() * lower.micro_batches, bytes_of, available);
}

}  // namespace colonnade::tools
