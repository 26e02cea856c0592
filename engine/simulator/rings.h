// Internal to engine/. The rings of a collective: as many as links carry beside each other. One alone would leave links idle
// where devices have several, or where every device of a node has a way of its own to the next node.
#ifndef COLONNADE_ENGINE_SIMULATOR_RINGS_H_
#define COLONNADE_ENGINE_SIMULATOR_RINGS_H_

#include <vector>

#include "engine/simulator/routes.h"

namespace colonnade::engine {

// Returns orders of `devices`, each for an equal part of the bytes.
//   Devices that are linked to each other: cycles that share no link, each in both directions, a link of twice the rate of
//     the slowest being two. They are found one after the other, over the links that have most left, until none is.
//   Devices in nodes of equal size, in which Routes::RingOf leads from each to the next at the best rate: as many as a node
//     has devices, so that each device leads out of its node in one of them.
//   All else: Routes::RingOf alone.
std::vector<std::vector<int>> FindRings(const Routes& routes, const std::vector<int>& devices);

// Returns the nodes of the second case, of equal size, in the order of the ring; empty in the other cases.
std::vector<std::vector<int>> NodesOf(const Routes& routes, const std::vector<int>& devices);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_RINGS_H_
