// Internal to engine/. Joins flows that have the same rate at all times to one, and leaves out links that limit no flow.
#ifndef COLONNADE_ENGINE_SIMULATOR_ALIKE_FLOWS_H_
#define COLONNADE_ENGINE_SIMULATOR_ALIKE_FLOWS_H_

#include <vector>

#include "engine/simulator/jobs.h"

namespace colonnade::engine {

// Makes `sets` smaller. Rates by max-min fairness stay what they were, whatever sets run beside each other:
//
//   - A resource that all flows which may run at once cannot fill limits none of them, and is left out.
//   - A set that shares no resource with a set that may run beside it takes the same time for each byte whenever it runs.
//     It becomes one flow of that rate.
//   - Two flows of a set are alike if they have as many bytes, the same greatest rate, and alike resources; two resources
//     are alike if they have the same rate and as many alike flows of each set. Flows that are alike are joined to one, and
//     resources to one, on which that flow counts as often as flows used each of them.
//
// Classes of alike flows and resources are refined until they are stable, in a few rounds of O(flows + resources).
// Source: Weisfeiler, Leman 1968 (stable colouring), here of flows and resources.
//
// REQUIRES: no flow takes copy engines; each use is of one flow.
void JoinAlikeFlows(std::vector<FlowSet>& sets, std::vector<double>& capacities);

// Returns the numbers that two ascending lists have in common.
std::vector<int> InCommon(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_SIMULATOR_ALIKE_FLOWS_H_
