// The cost of tasks that no layer emits: updates and transfers.
#ifndef COLONNADE_PARTITION_TASK_WORK_H_
#define COLONNADE_PARTITION_TASK_WORK_H_

#include <cstdint>

#include "program/task.h"

namespace colonnade::partition {

// Returns the flops of an update of so many elements, at 6 each as for SGD with momentum and weight decay:
// v ← m·v − r·(g + d·w), w ← w + v. Other optimisers are counted alike: their time is that of memory.
int64_t UpdateFlops(int64_t elements);

// Returns the bytes that one of `members` sends if each pair transfers directly. `bytes` is what it holds of the operand
// before. In a reduce a root receives, in a broadcast it sends, while the others do the reverse.
int64_t BytesSent(program::CollectiveKind kind, int64_t bytes, int64_t members, bool is_root = false);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_TASK_WORK_H_
