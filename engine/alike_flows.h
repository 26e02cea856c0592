// Internal to engine/: flows that have the same rate at all times become one, and links that limit no flow are left out.
#ifndef COLONNADE_ENGINE_ALIKE_FLOWS_H_
#define COLONNADE_ENGINE_ALIKE_FLOWS_H_

#include <vector>

#include "engine/jobs.h"

namespace colonnade::engine {

// Rates by max-min fairness stay what they were, whatever sets run beside each other:
//
//   - A resource that all flows which may run at once cannot fill limits none of them, and is left out.
//   - A set that never runs beside one with which it shares a resource takes the same time for each byte whenever it runs:
//   it
//     becomes one flow, as fast as that.
//   - Two flows of a set are alike if they are of as many bytes, may be as fast, and take alike resources; two resources are
//     alike if they are as fast and are taken by as many flows alike of each set. Flows that are alike are joined to one,
//     and resources to one, on which that flow counts as often as flows stood on each of them.
//
// Being alike is refined until it holds, in a few rounds of O(flows + resources).
// Source: Weisfeiler, Leman 1968 (stable colouring), here of flows and resources.
//
// REQUIRES: no flow takes copy engines; each use is of one flow.
void JoinAlikeFlows(std::vector<FlowSet>& sets, std::vector<double>& capacities);

// What two ascending lists have in common.
std::vector<int> InCommon(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_ALIKE_FLOWS_H_
