#include "engine/simulator/transfer_phases.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "engine/simulator/routes.h"

namespace colonnade::engine {
namespace {

using program::CollectiveKind;

int CeilLog2(size_t n) {
  int log = 0;
  while ((size_t{1} << log) < n) ++log;
  return log;
}

Phase RingPhase(const std::vector<int>& members, double bytes, int hops) {
  Phase phase{.flows = {}, .hops = hops};
  for (size_t m = 0; m < members.size(); ++m) phase.flows.push_back({members[m], members[(m + 1) % members.size()], bytes});
  return phase;
}

// Every member to every other.
Phase AllPairs(const std::vector<int>& members, double bytes) {
  Phase phase;
  for (int from : members) {
    for (int to : members) {
      if (from != to) phase.flows.push_back({from, to, bytes});
    }
  }
  return phase;
}

Phase Gather(const std::vector<int>& members, double bytes) {
  Phase phase;
  for (size_t m = 1; m < members.size(); ++m) phase.flows.push_back({members[m], members[0], bytes});
  return phase;
}

Phase Reversed(Phase phase) {
  for (Flow& flow : phase.flows) std::swap(flow.from, flow.to);
  phase.summed_bytes = 0;
  return phase;
}

Phase SumAtRoot(const std::vector<int>& members, double bytes) {
  Phase phase = Gather(members, bytes);
  phase.summed_bytes = bytes * static_cast<double>(members.size() - 1);
  return phase;
}

// Returns a reduction up a binary tree whose root is the first member, in pieces, so that all edges are at work at once.
Phase TreePhase(const std::vector<int>& members, double bytes) {
  Phase phase{.flows = {}, .hops = CeilLog2(members.size())};
  for (size_t m = 1; m < members.size(); ++m) phase.flows.push_back({members[m], members[(m - 1) / 2], bytes});
  return phase;
}

// Along a line that ends at the first member, in pieces.
Phase LinePhase(const std::vector<int>& members, double bytes) {
  Phase phase{.flows = {}, .hops = static_cast<int>(members.size()) - 1};
  for (size_t m = 1; m < members.size(); ++m) phase.flows.push_back({members[m], members[m - 1], bytes});
  return phase;
}

// Returns a way to the server and back, in pieces, so that sums come back while operands still go.
Phase ThroughServer(const std::vector<int>& members, double sent_bytes, double received_bytes) {
  Phase phase{.flows = {}, .hops = 2};
  for (int member : members) {
    phase.flows.push_back({member, kServer, sent_bytes});
    phase.flows.push_back({kServer, member, received_bytes});
  }
  return phase;
}

// The same with one device at the other end, which is the first: all others send, and it alone receives.
Phase ThroughServerToFirst(const std::vector<int>& members, double bytes) {
  Phase phase = ThroughServer(members, bytes, bytes);
  std::erase_if(phase.flows, [&](const Flow& flow) {
    return flow.from == members[0] || (flow.from == kServer && flow.to != members[0]);
  });
  return phase;
}

Phase ReducePhase(CollectiveAlgorithm algorithm, const std::vector<int>& members, double bytes) {
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return LinePhase(members, bytes);
    case CollectiveAlgorithm::kTree:
      return TreePhase(members, bytes);
    case CollectiveAlgorithm::kServer:
      return ThroughServerToFirst(members, bytes);
    case CollectiveAlgorithm::kDirect:
    case CollectiveAlgorithm::kMaster:
    case CollectiveAlgorithm::kFastest:
      break;
  }
  return SumAtRoot(members, bytes);
}

std::vector<Phase> AllReduce(CollectiveAlgorithm algorithm, const std::vector<int>& members, double bytes) {
  const int m = static_cast<int>(members.size());
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return {RingPhase(members, 2.0 * (m - 1) / m * bytes, 2 * (m - 1))};
    case CollectiveAlgorithm::kDirect:
      return {AllPairs(members, bytes / m), AllPairs(members, bytes / m)};
    case CollectiveAlgorithm::kTree: {
      // Up and down at once: the first pieces come back while the last go up.
      Phase phase = TreePhase(members, bytes / 2);
      AddFlowsOf(TreePhase({members.rbegin(), members.rend()}, bytes / 2), phase);
      AddFlowsOf(Reversed(phase), phase);
      JoinFlows(phase);
      phase.hops *= 2;
      return {phase};
    }
    case CollectiveAlgorithm::kServer:
      return {ThroughServer(members, bytes, bytes)};
    case CollectiveAlgorithm::kMaster:
    case CollectiveAlgorithm::kFastest:
      break;
  }
  return {SumAtRoot(members, bytes), Reversed(Gather(members, bytes))};
}

}  // namespace

std::vector<Phase> AllReduceInSwitch(const std::vector<int>& members, double operand_bytes, double max_rate) {
  const double m = static_cast<double>(members.size());
  Phase phase = RingPhase(members, (m + 1) / m * operand_bytes, /*hops=*/2);
  for (Flow& flow : phase.flows) flow.max_rate = max_rate;
  return {phase};
}

void JoinFlows(Phase& phase) {
  std::vector<Flow> joined;
  absl::flat_hash_map<std::pair<int, int>, size_t> places;
  for (const Flow& flow : phase.flows) {
    const auto [it, is_new] = places.emplace(std::pair(flow.from, flow.to), joined.size());
    if (is_new) {
      joined.push_back(flow);
    } else {
      joined[it->second].bytes += flow.bytes;
    }
  }
  phase.flows = std::move(joined);
}

void AddFlowsOf(const Phase& more, Phase& phase) {
  phase.flows.insert(phase.flows.end(), more.flows.begin(), more.flows.end());
  phase.hops = std::max(phase.hops, more.hops);
  phase.summed_bytes = std::max(phase.summed_bytes, more.summed_bytes);
}

std::vector<absl::Span<const Phase>> PhasesAtOnce(absl::Span<const Phase> phases) {
  std::vector<absl::Span<const Phase>> at_once;
  for (size_t begin = 0, end = 1; begin < phases.size(); begin = end++) {
    while (end < phases.size() && phases[end].in_pieces) ++end;
    at_once.push_back(phases.subspan(begin, end - begin));
  }
  return at_once;
}

std::vector<Phase> MakePhases(CollectiveKind kind, CollectiveAlgorithm algorithm, const std::vector<int>& members,
                              double operand_bytes) {
  const int m = static_cast<int>(members.size());
  if (m < 2) return {};
  const bool master = algorithm == CollectiveAlgorithm::kMaster, ring = algorithm == CollectiveAlgorithm::kRing,
             server = algorithm == CollectiveAlgorithm::kServer;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(algorithm, members, operand_bytes);
    case CollectiveKind::kAllToAll:
      return {AllPairs(members, operand_bytes / m)};
    case CollectiveKind::kReduceScatter:
      if (master) return {SumAtRoot(members, operand_bytes), Reversed(Gather(members, operand_bytes / m))};
      if (server) return {ThroughServer(members, operand_bytes, operand_bytes / m)};
      return {ring ? RingPhase(members, operand_bytes * (m - 1) / m, m - 1) : AllPairs(members, operand_bytes / m)};
    case CollectiveKind::kAllGather:
      if (master) return {Gather(members, operand_bytes), Reversed(Gather(members, operand_bytes * m))};
      if (server) return {ThroughServer(members, operand_bytes, operand_bytes * m)};
      return {ring ? RingPhase(members, operand_bytes * (m - 1), m - 1) : AllPairs(members, operand_bytes)};
    case CollectiveKind::kReduce:
      return {ReducePhase(algorithm, members, operand_bytes)};
    case CollectiveKind::kBroadcast:
      return {Reversed(ReducePhase(algorithm, members, operand_bytes))};
  }
  return {};
}

}  // namespace colonnade::engine
