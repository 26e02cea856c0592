// Which positions of the mesh do the same, so that one of them stands for all.
//
// All hold shards of equal extents and run the same actions. Two positions differ in what they
//   * do as the root of a reduction, or not;
//   * wait for before they read a part of what several tasks have made. After an all-gather of two, a position that reads
//     only its own half waits for no transfer; one that reads the other half does. Sections move one by one. (What a stage
//     without ops hands on is not followed.)
//   * meet: the members of their groups differ so, place by place (colour refinement: positions are told apart by the kinds
//     of those whom they meet until no kind is divided any more), or KindOfDevices says so of those groups.
#ifndef COLONNADE_PARTITION_FIRST_ALIKE_H_
#define COLONNADE_PARTITION_FIRST_ALIKE_H_

#include <vector>

#include "partition/actions.h"
#include "partition/lower.h"

namespace colonnade::partition {

// By position, the first that does the same. `kind_of_devices` may be absent.
std::vector<int> FirstAlike(const Lowering& lowering, const KindOfDevices& kind_of_devices);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_FIRST_ALIKE_H_
