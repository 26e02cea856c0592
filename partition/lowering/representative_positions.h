// Classes of positions of the mesh that do the same, so that one of each, its representative, stands for all.
//
// All hold shards of equal extents and run the same actions. Two positions differ in what they
//   * do as the root of a reduction, or not;
//   * wait for before they read a part of what several tasks have made. After an all-gather of two, a position that reads
//     only its own half waits for no transfer; one that reads the other half does. Sections move one by one. (What a stage
//     without ops hands on is not followed.)
//   * meet: the members of their groups differ so, place by place, or `classify_group` says so of those groups. (This is
//     colour refinement: positions are told apart by the classes of those whom they meet until no class divides any more.)
#ifndef COLONNADE_PARTITION_LOWERING_REPRESENTATIVE_POSITIONS_H_
#define COLONNADE_PARTITION_LOWERING_REPRESENTATIVE_POSITIONS_H_

#include <vector>

#include "partition/lower.h"
#include "partition/lowering/lowering.h"

namespace colonnade::partition {

// Returns, by position, the representative of its class: the first that does the same. `classify_group` may be absent.
std::vector<int> RepresentativePositions(const Lowering& lowering, const GroupClassifier& classify_group);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_REPRESENTATIVE_POSITIONS_H_
