// The plans that have names: functions from network and number of devices to a Plan.
//
//   single  one device
//   data    every layer `batch` on the axis "data"
//   model   columns on the axis "model": `group` where a layer is grouped, `column` elsewhere
//   hybrid  replicas of columns: `batch` on "data", as `model` on "model"
//   owt     one axis: convolutions `batch`, fully connected layers `column` (Krizhevsky 2014, arXiv:1404.5997)
//
// A layer without parameters follows its producer, so that it adds no communication. A layer whose sizes do not divide gets
// `replicate`, and Plan::notes says why.
#ifndef COLONNADE_PARTITION_NAMED_PLANS_H_
#define COLONNADE_PARTITION_NAMED_PLANS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partition/plan.h"

namespace colonnade::partition {

const std::vector<std::string>& PlanNames();
// Returns them and kAutoPlan, the last.
std::vector<std::string> PlanNamesAndAuto();
bool IsNamedPlan(absl::string_view name);

struct NamedPlanOptions {
  int devices = 1;
  int columns = 0;  // size of the model axis where the plan leaves it open; 0: all devices for model, 2 for hybrid
  int64_t global_batch = 64;
};

// Returns the plan of that name. FailedPrecondition: the name is unknown (the message has the names, and the nearest), the
// mesh does not make so many devices, the batch does not split, or the plan would split nothing at all.
absl::StatusOr<Plan> NamedPlan(absl::string_view name, const layers::LayerGraph& graph, const NamedPlanOptions& options);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_NAMED_PLANS_H_
