// Collectives by NCCL: one call of each member, on dense data; what is not dense is packed before and unpacked after.
//
// NCCL sums in an order of its own, which may differ from group to group.
#ifndef COLONNADE_CUDA_NCCL_H_
#define COLONNADE_CUDA_NCCL_H_

#include <vector>

#include "absl/types/span.h"
#include "cuda/ops/collective.h"
#include "cuda/task_context.h"

namespace colonnade::cuda {

bool Sums(program::CollectiveKind kind);

// Whether each copy of a parameter gets its gradient from one sum for all copies. Where not, copies would drift apart if
// sums of equal terms could differ.
bool EveryCopyHasOneSum(const program::Program& program);

// Whether NCCL can run the collective: every member on a GPU of its own, equal parts, a kind that it has (all-to-all it has
// not); without `sums` no sum.
bool NcclServes(absl::Span<const TaskContext> members, bool sums);

// One context per member in the order of the group, which is that of the ranks of `communicator` (Calls::MakeCommunicator).
// REQUIRES: NcclServes says yes.
absl::StatusOr<std::vector<MemberCalls>> PrepareNccl(absl::Span<const TaskContext> members, int communicator);

}  // namespace colonnade::cuda

#endif  // COLONNADE_CUDA_NCCL_H_
