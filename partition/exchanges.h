// Internal to partition/. Changes of a plan in a few neighbouring layers.
#ifndef COLONNADE_PARTITION_EXCHANGES_H_
#define COLONNADE_PARTITION_EXCHANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/plan.h"
#include "partition/step_costs.h"

namespace colonnade::partition {

// The strategies of an option of the first node, for it and those behind it.
struct Exchange {
  double additive_sec = 0;  // that it costs more
  size_t first = 0, length = 1;
  Strategies strategies;
};

// All of up to three nodes that change the plan, what the additive cost (additive_cost.h) likes best first.
std::vector<Exchange> ExchangesOf(const layers::LayerGraph& graph, const Plan& plan, int64_t samples,
                                  const StepCosts& costs);

// Makes an exchange in a plan, whose name is then kAutoPlan; false where all its layers have the strategies already.
bool Apply(const Exchange& exchange, const layers::LayerGraph& graph, Plan& plan);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_EXCHANGES_H_
