// Networks of the zoo by their names, with a named plan, lowered.
#ifndef COLONNADE_TESTS_PARTITION_LOWERED_H_
#define COLONNADE_TESTS_PARTITION_LOWERED_H_

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"

namespace colonnade::partition {

inline layers::LayerGraph Model(const std::string& name, const models::ModelOptions& options = {}) {
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel(name, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : layers::LayerGraph{};
}

inline Plan Named(const std::string& name, const layers::LayerGraph& graph, int devices, int64_t batch = 64) {
  absl::StatusOr<Plan> plan = NamedPlan(name, graph, {.devices = devices, .global_batch = batch});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : Plan{};
}

inline program::Program Lowered(const layers::LayerGraph& graph, const Plan& plan, const LowerOptions& options = {}) {
  absl::StatusOr<program::Program> program = Lower(graph, plan, options);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : program::Program{};
}

// Whether a task sums the labels or the metrics of a step over devices, as it does under every plan that cuts the batch.
inline bool SumsNumbersOfTheStep(const program::Program& program, const program::Task& task) {
  if (!std::holds_alternative<program::Collective>(task.body)) return false;
  const std::string& name = program.buffer(task.uses[0].buffer).name;
  return name == "label_count" || name.ends_with("metrics");
}

}  // namespace colonnade::partition

#endif  // COLONNADE_TESTS_PARTITION_LOWERED_H_
