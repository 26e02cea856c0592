// Classes of positions of the mesh that do the same, so that one of each, its representative, stands for all.
//
// All hold shards of equal extents and run the same actions. Positions are of different classes if they differ in one of
// these:
//   * whether they are the root of a reduction;
//   * which transfers they wait for before they read a part of what several tasks have made. After an all-gather of two, a
//     position that reads only its own half waits for none; one that reads the other half waits. Sections move one by one.
//     (Through a stage without ops this is not followed.)
//   * whom they meet: the classes of the members of their groups, in member order, or what `classify_group` says of a group.
//     Classes are divided by this until no class divides any more (colour refinement).
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
