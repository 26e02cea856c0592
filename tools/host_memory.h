// Whether Programs fit into the memory of this machine, said before anything is loaded.
#ifndef COLONNADE_TOOLS_HOST_MEMORY_H_
#define COLONNADE_TOOLS_HOST_MEMORY_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::tools {

// What AvailableMemory returns where nothing says how much there is.
inline constexpr int64_t kUnlimitedMemory = std::numeric_limits<int64_t>::max();

// Returns the bytes that this process can still take: the least of /proc/meminfo's MemAvailable, what `ulimit -v` leaves of
// its addresses, and what each control group above it leaves (memory.max less memory.current, or version 1's files; pages of
// files that can be dropped count as free). `root` stands before all paths.
int64_t AvailableMemory(const std::string& root = "");

// Returns the bytes that the CPU backend needs for `programs` at least, all devices together: buffers packed densely,
// persistent ones once by device and name, others of the Program that has most of them, and the two slots of each Program's
// images on the host. Nothing is allocated.
int64_t LeastBytesOf(absl::Span<const program::Program* const> programs);

// Returns the ResourceExhausted of "what needs at least … of this machine's memory, … are free; advice".
absl::Status NotEnoughMemory(const std::string& what, int64_t needed, int64_t available, const std::string& advice);

// Returns ResourceExhausted if the `needed` bytes of `batch` exceed `available`: it says what is needed, what there is, and
// the largest multiple of `multiple` found to fit. `bytes_of` says what another batch needs; it is called a few times,
// and only where the batch does not fit.
absl::Status CheckHostMemory(int64_t needed, int64_t batch, int64_t multiple,
                             const std::function<absl::StatusOr<int64_t>(int64_t batch)>& bytes_of,
                             int64_t available = AvailableMemory());
// The same of steps of one plan, on a CPU backend of their own.
absl::Status CheckHostMemory(const layers::LayerGraph& graph, const partition::Plan& plan, partition::LowerOptions lower,
                             int64_t available = AvailableMemory());

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_HOST_MEMORY_H_
