#include "engine/simulator/alike_flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"

namespace colonnade::engine {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

// What the flows of a set can ask of each resource at once, bytes per second.
absl::flat_hash_map<int, double> AskedBy(const FlowSet& set) {
  absl::flat_hash_map<int, double> asked;
  for (const FlowOnRoute& flow : set.flows) {
    for (const FairShare::Use& use : flow.uses) asked[use.resource] += flow.max_rate;
  }
  return asked;
}

// Returns the most that all sets that may run at once ask of each resource. Sets with the same first lane run one at a time,
// so of these only the largest request counts.
std::vector<double> MostAskedOf(size_t resources, const std::vector<FlowSet>& sets) {
  std::map<int, std::vector<const FlowSet*>> by_lane;
  std::vector<double> asked(resources, 0);
  for (const FlowSet& set : sets) {
    if (!set.lanes.empty()) {
      by_lane[set.lanes.front()].push_back(&set);
      continue;
    }
    for (const auto& [resource, rate] : AskedBy(set)) asked[resource] = kNoBound;  // it may run beside itself
  }
  for (const auto& [lane, on_lane] : by_lane) {
    absl::flat_hash_map<int, double> by_one_set;
    for (const FlowSet* set : on_lane) {
      for (const auto& [resource, rate] : AskedBy(*set)) by_one_set[resource] = std::max(by_one_set[resource], rate);
    }
    for (const auto& [resource, rate] : by_one_set) asked[resource] += rate;
  }
  return asked;
}

void LeaveOutAmpleResources(std::vector<FlowSet>& sets, const std::vector<double>& capacities) {
  const std::vector<double> asked = MostAskedOf(capacities.size(), sets);
  const auto is_ample = [&](const FairShare::Use& use) { return asked[use.resource] <= capacities[use.resource]; };
  for (FlowSet& set : sets) {
    for (FlowOnRoute& flow : set.flows) {
      flow.uses.erase(std::remove_if(flow.uses.begin(), flow.uses.end(), is_ample), flow.uses.end());
    }
  }
}

// Lists of lanes, each once, and what two of them have in common.
class LaneLists {
 public:
  int IndexOf(const std::vector<int>& lanes) {
    const auto [known, is_new] = index_.try_emplace(lanes, static_cast<int>(lists_.size()));
    if (is_new) lists_.push_back(lanes);
    return known->second;
  }
  int InCommonOf(int a, int b) {
    if (a == b) return a;
    const auto [known, is_new] = common_.try_emplace({a, b});
    if (is_new) known->second = IndexOf(InCommon(lists_[a], lists_[b]));
    return known->second;
  }
  bool IsEmpty(int list) const { return lists_[list].empty(); }

 private:
  std::map<std::vector<int>, int> index_;
  std::vector<std::vector<int>> lists_;
  std::map<std::pair<int, int>, int> common_;
};

// Returns, by set, whether it never runs beside another that takes one of its resources, nor beside itself.
std::vector<bool> RunAlone(const std::vector<FlowSet>& sets) {
  LaneLists lists;
  absl::flat_hash_map<int, int> lanes_on;  // of a resource: the list in common to all sets that take it
  for (const FlowSet& set : sets) {
    const int lanes = lists.IndexOf(set.lanes);
    for (const auto& [resource, rate] : AskedBy(set)) {
      const auto [common, is_new] = lanes_on.try_emplace(resource, lanes);
      if (!is_new) common->second = lists.InCommonOf(common->second, lanes);
    }
  }
  std::vector<bool> alone;
  for (const FlowSet& set : sets) {
    bool is_alone = !set.lanes.empty();
    for (const auto& [resource, rate] : AskedBy(set)) is_alone = is_alone && !lists.IsEmpty(lanes_on.at(resource));
    alone.push_back(is_alone);
  }
  return alone;
}

// Seconds of a set alone, for each byte.
double SecondsOf(const FlowSet& set, const std::vector<double>& capacities) {
  FairShare share(capacities);
  for (const FlowOnRoute& flow : set.flows) share.Start(0, 0, flow.bytes, flow.max_rate, flow.uses);
  double now = 0;
  for (size_t ended = 0; ended < set.flows.size(); ++ended) {
    now = std::max(now, share.NextEnd());
    share.EndNext(now);
  }
  return now;
}

void JoinWhatRunsAlone(std::vector<FlowSet>& sets, const std::vector<double>& capacities) {
  const std::vector<bool> alone = RunAlone(sets);
  for (size_t s = 0; s < sets.size(); ++s) {
    const double seconds = alone[s] ? SecondsOf(sets[s], capacities) : 0;
    if (seconds > 0) sets[s].flows = {{.uses = {}, .engines = {}, .max_rate = 1 / seconds, .bytes = 1}};
  }
}

// Equal for what is alike as far as is known. Sums of colours are those of a multiset.
using Colour = uint64_t;

class Colouring {
 public:
  Colouring(const std::vector<FlowSet>& sets, const std::vector<double>& capacities) : sets_(sets) {
    for (double capacity : capacities) of_resource_.push_back(absl::HashOf(capacity));
    for (size_t count = 0; count < Count();) {
      count = Count();
      Refine();
    }
  }

  Colour OfResource(int resource) const { return of_resource_[resource]; }
  Colour OfFlow(size_t set, const FlowOnRoute& flow) const {
    Colour resources = 0;
    for (const FairShare::Use& use : flow.uses) resources += absl::HashOf(of_resource_[use.resource]);
    return absl::HashOf(set, flow.bytes, flow.max_rate, resources);
  }

 private:
  size_t Count() const { return absl::flat_hash_set<Colour>(of_resource_.begin(), of_resource_.end()).size(); }

  // What is alike so far may differ in what takes it.
  void Refine() {
    std::vector<Colour> flows(of_resource_.size(), 0);  // of those that take a resource
    for (size_t set = 0; set < sets_.size(); ++set) {
      for (const FlowOnRoute& flow : sets_[set].flows) {
        const Colour colour = OfFlow(set, flow);
        for (const FairShare::Use& use : flow.uses) flows[use.resource] += colour;
      }
    }
    for (size_t r = 0; r < flows.size(); ++r) of_resource_[r] = absl::HashOf(of_resource_[r], flows[r]);
  }

  const std::vector<FlowSet>& sets_;
  std::vector<Colour> of_resource_;
};

// The kinds of resources: what is alike, numbered by first appearance.
struct Kinds {
  struct Kind {
    int number = 0;
    int count = 0;  // resources of it
  };
  absl::flat_hash_map<Colour, Kind> by_colour;
  std::vector<double> capacities;  // by number
};

Kinds KindsOf(const Colouring& colouring, const std::vector<double>& capacities) {
  Kinds kinds;
  for (size_t r = 0; r < capacities.size(); ++r) {
    const auto [kind, is_new] = kinds.by_colour.try_emplace(colouring.OfResource(static_cast<int>(r)));
    if (is_new) {
      kind->second.number = static_cast<int>(kinds.capacities.size());
      kinds.capacities.push_back(capacities[r]);
    }
    ++kind->second.count;
  }
  return kinds;
}

// What so many flows take of each kind of resource, if each takes `uses`.
FairShare::Uses UsesOf(const Colouring& colouring, const Kinds& kinds, const FairShare::Uses& uses, int flows) {
  std::map<int, double> taken;  // of one resource of each kind
  for (const FairShare::Use& use : uses) {
    const Kinds::Kind& kind = kinds.by_colour.at(colouring.OfResource(use.resource));
    taken[kind.number] += static_cast<double>(flows) / kind.count;
  }
  FairShare::Uses joined;
  for (const auto& [kind, of_each] : taken) joined.push_back({kind, of_each});
  return joined;
}

}  // namespace

std::vector<int> InCommon(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common;
}

void JoinAlikeFlows(std::vector<FlowSet>& sets, std::vector<double>& capacities) {
  LeaveOutAmpleResources(sets, capacities);
  JoinWhatRunsAlone(sets, capacities);
  const Colouring colouring(sets, capacities);
  const Kinds kinds = KindsOf(colouring, capacities);
  for (size_t s = 0; s < sets.size(); ++s) {
    std::vector<FlowOnRoute> joined;
    std::vector<int> counts;  // by joined flow
    absl::flat_hash_map<Colour, size_t> known;
    for (FlowOnRoute& flow : sets[s].flows) {
      const auto [index, is_new] = known.try_emplace(colouring.OfFlow(s, flow), joined.size());
      if (is_new) {
        joined.push_back(std::move(flow));
        counts.push_back(0);
      }
      ++counts[index->second];
    }
    for (size_t f = 0; f < joined.size(); ++f) joined[f].uses = UsesOf(colouring, kinds, joined[f].uses, counts[f]);
    sets[s].flows = std::move(joined);
  }
  capacities = kinds.capacities;
}

}  // namespace colonnade::engine
