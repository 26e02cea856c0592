// What an exchange or a collective moves, as flows between devices: the published algorithms, with their cost.
//
// M members, each with an operand x of S bytes; α the latency of a hop, β the rate of a link in one direction. Alone on
// links that do not share, the time is
//
//   all-reduce      ring 2(M−1)α + 2(M−1)/M·S/β      tree 2⌈log₂M⌉α + 2S/β (M > 2)    direct 2α + 2(M−1)/M·S/β
//                   master 2α + 2(M−1)S/β
//   reduce-scatter  ring (M−1)α + (M−1)/M·S/β        direct, tree α + (M−1)/M·S/β     master 2α + (M−1)S/β + (M−1)/M·S/β
//   all-gather      ring (M−1)α + (M−1)S/β           direct, tree α + (M−1)S/β        master 2α + (M−1)S/β + (M−1)M·S/β
//   all-to-all      α + (M−1)/M·S/β                  whatever the algorithm
//   reduce          ring (M−1)α + S/β                tree ⌈log₂M⌉α + 2S/β (M > 2)     direct, master α + (M−1)S/β
//   broadcast       as reduce
//
// Source: Thakur, Rabenseifner, Gropp 2005 (ring, tree, direct); the tree is binary and pipelined, as NCCL's; a ring's parts
// are pipelined. Master: Yadan et al. 2013, section 3.
#ifndef COLONNADE_ENGINE_TRANSFER_PHASES_H_
#define COLONNADE_ENGINE_TRANSFER_PHASES_H_

#include <vector>

#include "engine/machine.h"
#include "program/task.h"

namespace colonnade::engine {

struct Flow {
  int from = 0, to = 0;  // devices
  double bytes = 0;
};

// Flows that run at once; the next phase starts when all have ended.
struct Phase {
  std::vector<Flow> flows;
  int hops = 1;             // latencies in a row
  double summed_bytes = 0;  // that one device receives and adds to its own, beyond what hides behind the flows
};

// REQUIRES: algorithm is not kFastest.
std::vector<Phase> PhasesOf(program::CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<int>& members,
                            double operand_bytes, int root);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_TRANSFER_PHASES_H_
