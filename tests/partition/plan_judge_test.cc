// What judging a plan spends of a search.
#include "partition/planner/plan_judge.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/partition/lowering_case.h"

namespace colonnade::partition {
namespace {

struct Spent {
  double part = 0;  // of the search
  int64_t tasks = 0;
};

// Judges `plans` of TwoLayers and returns what is spent behind the last.
Spent Judged(const std::vector<Plan>& plans, int most_judgements, int64_t most_tasks, PlannerOptions options = {}) {
  const layers::LayerGraph graph = TwoLayers();
  Spent spent;
  options.lower.global_batch = 8 * options.lower.micro_batches;
  options.most_judgements = most_judgements;
  options.most_tasks = most_tasks;
  options.judge = [&](const program::RepresentativeProgram& lowered) -> absl::StatusOr<Judgement> {
    int devices = 0;
    for (const std::vector<int>& others : lowered.stands_for) devices += !others.empty();
    spent.tasks += static_cast<int64_t>(lowered.program.tasks.size()) / devices;
    return Judgement{};
  };
  options.progress = [&](int, double part) { spent.part = part; };
  PlanJudge judge(graph, options);
  for (const Plan& plan : plans) {
    EXPECT_FALSE(judge.IsSpent());
    EXPECT_TRUE(judge.Judge(plan).ok());
  }
  EXPECT_TRUE(judge.IsSpent(spent.part));
  EXPECT_EQ(judge.IsSpent(spent.part + 0.01), spent.part == 1);
  return spent;
}

std::vector<Plan> TwoPlans() {
  const Plan replicated = PlanOf(TwoLayers(), 2, 1, {kReplicate, kReplicate});
  return {replicated, PlanOf(TwoLayers(), 2, 1, {kBatch, kReplicate}), replicated};
}

TEST(PlanJudge, CountsThePlansThatItJudges) { EXPECT_EQ(Judged(TwoPlans(), 8, 1'000'000).part, 0.25); }

TEST(PlanJudge, CountsTheTasksOfOneDevice) {
  const int64_t tasks = Judged(TwoPlans(), 1'000, 1'000'000).tasks;
  EXPECT_EQ(Judged(TwoPlans(), 1'000, 4 * tasks).part, 0.25);
  PlannerOptions devices_apart;
  devices_apart.classify_group = [](const std::vector<int>& devices) { return devices[0]; };
  EXPECT_NEAR(Judged(TwoPlans(), 1'000, 4 * tasks, devices_apart).part, 0.25, 0.02);  // one device stores the metrics
}

TEST(PlanJudge, CountsTheTasksOfAllThatItLowersForManyMicroBatches) {
  PlannerOptions many;
  many.lower.micro_batches = 100;
  const int64_t tasks = Judged(TwoPlans(), 1'000, 1'000'000, many).tasks;
  EXPECT_EQ(Judged(TwoPlans(), 1'000, 4 * tasks, many).part, 0.25);
}

TEST(PlanJudge, SpendsNoMoreThanAll) { EXPECT_EQ(Judged({TwoPlans()[0]}, 1'000, 1).part, 1); }

}  // namespace
}  // namespace colonnade::partition
