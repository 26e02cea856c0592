#include "partition/task_work.h"

namespace colonnade::partition {

using program::CollectiveKind;

int64_t UpdateFlops(int64_t elements) { return 6 * elements; }

int64_t BytesSent(CollectiveKind kind, int64_t bytes, int64_t members, bool is_root) {
  const int64_t others = members - 1;
  switch (kind) {
    case CollectiveKind::kAllReduce:  // a reduce-scatter, then an all-gather of the parts
      return 2 * bytes / members * others;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return bytes / members * others;
    case CollectiveKind::kAllGather:
      return bytes * others;
    case CollectiveKind::kReduce:
      return is_root ? 0 : bytes;
    case CollectiveKind::kBroadcast:
      return is_root ? bytes * others : 0;
  }
  return 0;
}

}  // namespace colonnade::partition
