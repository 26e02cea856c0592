// Transfers between virtual devices: exchanges and collectives, through shared memory.
//
// All members of a transfer meet, each moves what ends in its own buffers (in a reduction to several: its share of the
// rows), and all meet again, so that buffers stay as they are meanwhile. Sums are taken in member order in the element type:
// the same bits on every member and in every run. Layouts of the members may differ, except where oneDNN chose them.
#ifndef COLONNADE_CPU_COLLECTIVE_H_
#define COLONNADE_CPU_COLLECTIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cpu/task_context.h"
#include "cpu/threads/rendezvous.h"

namespace colonnade::cpu {

// The kernels of all members of one transfer, and where they meet.
struct PreparedTransfer {
  std::vector<std::unique_ptr<Kernel>> kernels;  // in the order of the members
  std::shared_ptr<Rendezvous> rendezvous;        // alive as long as any of the kernels
};

// `sides`: the two tasks of one message.
absl::StatusOr<PreparedTransfer> PrepareExchange(absl::Span<const TaskContext> sides);

// `members`: the tasks of one instance, in the order of the group's devices.
absl::StatusOr<PreparedTransfer> PrepareCollective(absl::Span<const TaskContext> members);

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_COLLECTIVE_H_
