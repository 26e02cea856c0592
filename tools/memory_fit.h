// What a plan takes of a device's memory on a machine profile, and the nearest plan that fits.
#ifndef COLONNADE_TOOLS_MEMORY_FIT_H_
#define COLONNADE_TOOLS_MEMORY_FIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cpu/backend.h"
#include "engine/machine.h"
#include "layers/graph.h"
#include "partition/lower.h"
#include "partition/plan.h"
#include "program/program.h"

namespace colonnade::tools {

// Memory of one device by what it is for, in bytes, densely packed: weights, gradients, optimiser, activations and the rest.
struct MemoryParts {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0;
  int64_t total = 0;  // of the arenas, in which step buffers share bytes
};
std::vector<MemoryParts> MemoryOf(const program::Program& program);

struct FittingPlan {
  partition::Plan plan;
  int64_t peak_bytes = 0;  // of the fullest device
};
// Returns the first plan that needs at most `memory_bytes` of each device: on `devices` of them, twice as many and so on,
// `most` as the last; of each number every named plan in turn, with gradients reduced everywhere or, where only that fits,
// sharded. Empty if there is none. `peak_bytes_of` is called at most twice for each name and number; plans for which it
// gives an error are passed over.
std::optional<FittingPlan> NearestPlanThatFits(
    const layers::LayerGraph& graph, int64_t global_batch, int devices, int most, int64_t memory_bytes,
    const std::function<absl::StatusOr<int64_t>(const partition::Plan&)>& peak_bytes_of);

// Returns ResourceExhausted with a table of the parts and the nearest named plan that fits, if `program` exceeds a device's
// memory. On CPU devices the plan fits with what the backend takes for it with `kernels` (tools/planning.h, BytesOnCpu).
absl::Status CheckFits(const engine::Machine& machine, const layers::LayerGraph& graph, const partition::LowerOptions& lower,
                       const program::Program& program, std::optional<cpu::CpuOptions::Kernels> kernels = std::nullopt);

}  // namespace colonnade::tools

#endif  // COLONNADE_TOOLS_MEMORY_FIT_H_
