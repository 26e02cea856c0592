// Plans from files, by the command: what is wrong in one, and that one trains as the named plan that it is.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layers/graph.h"
#include "models/models.h"
#include "nlohmann/json.hpp"
#include "partition/named_plans.h"
#include "partition/plan.h"
#include "tests/cli/command.h"

namespace colonnade::cli {
namespace {

using nlohmann::json;

TEST_F(Command, WrongPlanFilesAre65) {
  Write("field.json",
        R"({"colonnade_plan": 1, "mesh": [{"name": "model", "size": 2}], "layers": {}, "redution": "sharded"})");
  ExpectError(absl::StrCat(kTrainDigits, "--plan=", In("field.json")), 65,
              {"field.json", "redution", "did you mean \"reduction\"?"});
  absl::StatusOr<layers::LayerGraph> graph = models::BuildModel("alexnet", {});
  ASSERT_TRUE(graph.ok());
  partition::Plan plan = *partition::NamedPlan("single", *graph, {});
  plan.mesh = partition::Mesh::ReplicasByColumns(1, 3);
  plan.layers["features.8"][1] = layers::Strategy::kColumn;
  Write("columns.json", partition::PlanToJson(plan));
  ExpectError(absl::StrCat("program --model=alexnet --plan=", In("columns.json")), 65,
              {"columns.json", "features.8", "found 256", "255 or 258"});
  Write("text.json", "hello");
  ExpectError(absl::StrCat(kTrainDigits, "--plan=", In("text.json")), 65, {"text.json", "JSON"});
}

TEST_F(Command, APlanFileTrainsLikeThePlanOfItsName) {
  absl::StatusOr<layers::LayerGraph> graph =
      models::BuildModel("two_column", {.input_channels = 1, .input_size = 8, .width = 0.25});
  ASSERT_TRUE(graph.ok());
  absl::StatusOr<partition::Plan> plan = partition::NamedPlan("hybrid", *graph, {.devices = 4});
  ASSERT_TRUE(plan.ok());
  Write("plan.json", partition::PlanToJson(*plan));
  const Result named = Run(absl::StrCat(kTrainDigits, "--plan=hybrid --devices=4 --steps=3 --json"));
  const Result file = Run(absl::StrCat(kTrainDigits, "--plan=", In("plan.json"), " --steps=3 --json"));
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(json::parse(file.out)["losses"], json::parse(named.out)["losses"]);
  ExpectError(absl::StrCat(kTrainDigits, "--devices=2 --plan=", In("plan.json")), 2, {"--devices", "expected 4"});
  ExpectError(absl::StrCat(kTrainDigits, "--columns=4 --plan=", In("plan.json")), 2, {"--columns", "expected 2"});
}

}  // namespace
}  // namespace colonnade::cli
