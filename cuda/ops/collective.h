// Exchanges and collectives by copies between peers: every member pulls what it needs, and sums it in member order.
//
// A meeting runs in phases. Between phases, before the first and after the last, all members wait for each other (events,
// loaded.cc). Within a phase a member writes its own memory alone, and no other member reads what it writes. It serves GPUs
// that reach each other, GPUs that do not (bytes then go through workspaces), and several virtual devices on one GPU.
#ifndef COLONNADE_CUDA_COLLECTIVE_H_
#define COLONNADE_CUDA_COLLECTIVE_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "cuda/task_context.h"

namespace colonnade::cuda {

struct MemberCalls {
  std::vector<std::vector<Call>> phases;  // as many for each member
  int64_t workspace_bytes = 0;
  bool meets = true;  // false: NCCL's calls wait for each other themselves
};

// Calls::CanReach.
using Reach = std::function<bool(int gpu, int other)>;

// One context per side, or per member in the order of the group.
absl::StatusOr<std::vector<MemberCalls>> PrepareExchange(absl::Span<const TaskContext> sides, const Reach& can_reach);
absl::StatusOr<std::vector<MemberCalls>> PrepareCollective(absl::Span<const TaskContext> members, const Reach& can_reach);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_COLLECTIVE_H_
