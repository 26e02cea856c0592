// What an exchange or a collective moves, as flows between devices: the published algorithms, with their cost.
//
// M members, each with an operand x of S bytes; α the latency of a hop, β the rate of a link in one direction. Alone on
// links that do not share, the time is
//
//   all-reduce      ring 2(M−1)α + 2(M−1)/M·S/β      tree 2⌈log₂M⌉α + 2S/β (M > 4)    direct 2α + 2(M−1)/M·S/β
//                   master 2α + 2(M−1)S/β + σ
//   reduce-scatter  ring (M−1)α + (M−1)/M·S/β        direct, tree α + (M−1)/M·S/β     master 2α + (M−1)S/β + (M−1)/M·S/β + σ
//   all-gather      ring (M−1)α + (M−1)S/β           direct, tree α + (M−1)S/β        master 2α + (M−1)S/β + (M−1)M·S/β
//   all-to-all      α + (M−1)/M·S/β                  whatever the algorithm
//   reduce          ring (M−1)α + S/β                tree ⌈log₂M⌉α + 2S/β (M > 2)     direct, master α + (M−1)S/β
//                   + σ
//   broadcast       as reduce, without σ
//
// σ = 3(M−1)S/μ is what a root adds before it goes on: it reads two operands and writes one for each that it has received,
// at its memory's rate μ. All other sums hide behind the flows.
//
// A server, at a rate of β to each member and γ over all of them for what it takes in, α to it and back 2α:
//
//   all-reduce, reduce-scatter   2α + max(S/β, MS/γ)     all-gather   2α + max(MS/β, MS/γ)
//   reduce                       2α + max(S/β, (M−1)S/γ) broadcast    2α + max(S/β, S/γ)
//
// Source: Thakur, Rabenseifner, Gropp 2005 (ring, direct); a ring's parts are pipelined. A tree is binary and pipelined. An
// all-reduce has two trees, each for half of the bytes, in which no member has children twice (Sanders, Speck, Träff 2009,
// Two-tree algorithms for full bandwidth broadcast, reduction and scan), as NCCL's; of three or four members it takes 3S/2β,
// of two S/β. Each of theirs is of depth ⌈log₂M⌉, since its root has one child; the flows here are those of a heap, which
// has the same load on each link and may be one less deep. Master: Yadan et al. 2013, section 3.
#ifndef COLONNADE_ENGINE_SIMULATOR_TRANSFER_PHASES_H_
#define COLONNADE_ENGINE_SIMULATOR_TRANSFER_PHASES_H_

#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "engine/machine.h"
#include "program/task.h"

namespace colonnade::engine {

struct Flow {
  int from = 0, to = 0;  // devices
  double bytes = 0;
  double max_rate = kNoMaxRate;  // bytes per second
  static constexpr double kNoMaxRate = std::numeric_limits<double>::infinity();
};

// Flows that run at once; the next phase starts when all have ended, unless it follows in pieces.
struct Phase {
  std::vector<Flow> flows;
  int hops = 1;             // latencies in a row
  bool in_pieces = false;   // starts once the phase before has done its first piece, and runs beside its later ones
  double summed_bytes = 0;  // that one device receives and adds to its own, beyond what hides behind the flows
};

// Returns the phases of an all-reduce by a switch that adds: each member reads the sum of its part, for which all send
// theirs to the switch, and writes it to all through the switch: 2α + (M+1)/M·S/β, β at most `max_rate`. Each member's flow
// is as one to the next: they take the members' links to the switch, both ways. Source: Graham et al. 2020, Scalable
// Hierarchical Aggregation and Reduction Protocol Streaming-Aggregation; that a GPU fetches and writes one part each is what
// the NVLS algorithm of NCCL does (its source, all_reduce.h).
std::vector<Phase> AllReduceInSwitch(const std::vector<int>& members, double operand_bytes, double max_rate);

// Makes one flow of all that go the same way: they are parts of one transfer, so a cap on each transfer is one on all of
// them. REQUIRES: they have one max_rate.
void JoinFlows(Phase& phase);

// Adds the flows of `more`, which runs beside `phase`: both wait for the one of more hops and of more summed bytes.
void AddFlowsOf(const Phase& more, Phase& phase);

// Returns the phases that run at once, in order: one, and all those in pieces behind it.
std::vector<absl::Span<const Phase>> PhasesAtOnce(absl::Span<const Phase> phases);

// Returns the phases of a collective by `algorithm`; one with a root has it as its first member. REQUIRES: it is not
// kFastest.
std::vector<Phase> MakePhases(program::CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<int>& members,
                              double operand_bytes);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_TRANSFER_PHASES_H_
