#include "tools/memory_fit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "partition/named_plans.h"
#include "program/memory.h"
#include "program/representative_program.h"
#include "tools/planning.h"

namespace colonnade::tools {
namespace {

constexpr double kMegabyte = 1e6;

// Bytes of the fullest device of a training step: densely packed, or what the CPU backend takes.
absl::StatusOr<int64_t> PeakBytesOf(const engine::Machine& machine, const layers::LayerGraph& graph,
                                    const partition::Plan& plan, const partition::LowerOptions& lower,
                                    std::optional<cpu::CpuOptions::Kernels> kernels) {
  if (machine.cores.value > 0) {
    ASSIGN_OR_RETURN(const program::Program program, partition::Lower(graph, plan, lower));
    ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, BytesOnCpu(machine, program, kernels));
    return *std::max_element(bytes.begin(), bytes.end());
  }
  ASSIGN_OR_RETURN(const program::RepresentativeProgram lowered, partition::LowerRepresentatives(graph, plan, lower));
  int64_t most = 0;
  for (const MemoryParts& parts : MemoryOf(lowered.program)) most = std::max(most, parts.total);
  return most;
}

}  // namespace

std::vector<MemoryParts> MemoryOf(const program::Program& program) {
  std::vector<MemoryParts> parts(program.device_count);
  const auto size_of = [&](const program::Buffer& buffer) { return program::DenseSizeOf(program, buffer); };
  const program::MemoryMap map = program::PlaceBuffers(program, size_of);
  std::vector<bool> is_of_optimizer(program.buffers.size());
  for (const program::Parameter& parameter : program.parameters) {
    for (program::StateKind kind : program::kStateKinds) {
      if (kind == program::StateKind::kValue) continue;
      for (const program::Piece& piece : parameter.pieces(kind)) {
        is_of_optimizer[program::RootOf(program, piece.buffer).value] = true;
      }
    }
  }
  for (const program::Buffer& buffer : program.buffers) {
    MemoryParts& of_device = parts[buffer.device];
    const bool root = program::RootOf(program, buffer.id) == buffer.id;
    if (!root) continue;
    if (buffer.lifetime == program::Lifetime::kPersistent) {
      (is_of_optimizer[buffer.id.value] ? of_device.optimizer : of_device.weights) += size_of(buffer);
    } else if (std::holds_alternative<program::Bucket>(buffer.storage)) {
      of_device.gradients += size_of(buffer);
    }
  }
  for (int d = 0; d < program.device_count; ++d) {
    parts[d].total = map.step_bytes[d] + map.persistent_bytes[d];
    parts[d].activations = std::max<int64_t>(0, map.step_bytes[d] - parts[d].gradients);
  }
  return parts;
}

std::optional<FittingPlan> NearestPlanThatFits(
    const layers::LayerGraph& graph, int64_t global_batch, int devices, int most, int64_t memory_bytes,
    const std::function<absl::StatusOr<int64_t>(const partition::Plan&)>& peak_bytes_of) {
  const auto fitting = [&](partition::Plan plan, partition::Reduction reduction) -> std::optional<FittingPlan> {
    plan.reduction = reduction;
    const absl::StatusOr<int64_t> bytes = peak_bytes_of(plan);
    if (!bytes.ok() || *bytes > memory_bytes) return std::nullopt;
    return FittingPlan{std::move(plan), *bytes};
  };
  for (; devices <= most; devices = devices < most ? std::min(2 * devices, most) : most + 1) {
    for (const std::string& name : partition::PlanNames()) {
      const absl::StatusOr<partition::Plan> plan =
          partition::NamedPlan(name, graph, {.devices = devices, .global_batch = global_batch});
      if (!plan.ok()) continue;
      // A sharded reduction holds no more than any other.
      std::optional<FittingPlan> sharded = fitting(*plan, partition::Reduction::kSharded);
      if (!sharded.has_value()) continue;
      std::optional<FittingPlan> whole = fitting(*plan, partition::Reduction::kAllReduce);
      return whole.has_value() ? std::move(whole) : std::move(sharded);
    }
  }
  return std::nullopt;
}

absl::Status CheckFits(const engine::Machine& machine, const layers::LayerGraph& graph, const partition::LowerOptions& lower,
                       const program::Program& program, std::optional<cpu::CpuOptions::Kernels> kernels) {
  const double memory = machine.memory_bytes.value;
  const std::vector<MemoryParts> parts = MemoryOf(program);
  const auto fullest = std::max_element(parts.begin(), parts.end(),
                                        [](const MemoryParts& a, const MemoryParts& b) { return a.total < b.total; });
  if (static_cast<double>(fullest->total) <= memory) return absl::OkStatus();
  std::string message = absl::StrFormat(
      "the plan does not fit: device %d of machine %s has %.0f MB, the plan needs %.0f MB\n"
      "  weights     %10.1f MB\n  gradients   %10.1f MB\n  optimiser   %10.1f MB\n  activations %10.1f MB",
      fullest - parts.begin(), machine.Title(), memory / kMegabyte, static_cast<double>(fullest->total) / kMegabyte,
      static_cast<double>(fullest->weights) / kMegabyte, static_cast<double>(fullest->gradients) / kMegabyte,
      static_cast<double>(fullest->optimizer) / kMegabyte, static_cast<double>(fullest->activations) / kMegabyte);
  const std::optional<FittingPlan> found = NearestPlanThatFits(
      graph, lower.global_batch, program.device_count, machine.device_count(), static_cast<int64_t>(memory),
      [&](const partition::Plan& plan) { return PeakBytesOf(machine, graph, plan, lower, kernels); });
  if (!found.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%s\nno named plan fits on this machine, of %s; use a smaller --batch", message,
                        base::Counted(machine.device_count(), "device")));
  }
  const int devices = found->plan.mesh.device_count();
  const std::string reduction = found->plan.reduction == partition::Reduction::kSharded ? " --reduction=sharded" : "";
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s\nthe nearest plan that fits: %s on %s, %.0f MB; the same command with --plan=%s --devices=%d%s shows it", message,
      found->plan.name, base::Counted(devices, "device"), static_cast<double>(found->peak_bytes) / kMegabyte,
      found->plan.name, devices, reduction));
}

}  // namespace colonnade::tools
