// What tasks cost that no layer emits: updates and transfers.
#ifndef COLONNADE_PARTITION_TASK_WORK_H_
#define COLONNADE_PARTITION_TASK_WORK_H_

#include <cstdint>

#include "program/task.h"

namespace colonnade::partition {

// Of an update of so many elements.
int64_t UpdateFlops(int64_t elements);

// Bytes that one of `members` sends if each pair transfers directly. `bytes`: what it holds of the operand before; a root
// receives of a reduce, and sends of a broadcast, while the others do the reverse.
int64_t BytesSent(program::CollectiveKind kind, int64_t bytes, int64_t members, bool is_root = false);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_TASK_WORK_H_
