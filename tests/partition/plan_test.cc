#include "partition/plan.h"

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "partition/legality.h"
#include "partition/named_plans.h"
#include "partition/planner.h"
#include "tests/partition/lowered.h"

namespace colonnade::partition {
namespace {

using layers::Strategy;
using ::testing::HasSubstr;

TEST(PlanJson, RoundTripsEveryField) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("hybrid", graph, 4);
  plan.reduction = Reduction::kSharded;
  plan.overlap = false;
  plan.bucket_bytes = 12345;
  plan.piece_bytes = 23456;
  plan.transfer_parts = 64;
  plan.device_order = {3, 1, 2, 0};
  absl::StatusOr<Plan> parsed = PlanFromJson(PlanToJson(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PlanToJson(*parsed), PlanToJson(plan));
  EXPECT_EQ(parsed->layers, plan.layers);
  EXPECT_EQ(parsed->bucket_bytes, 12345);
  EXPECT_EQ(parsed->piece_bytes, 23456);
  EXPECT_EQ(parsed->transfer_parts, 64);
  EXPECT_EQ(parsed->mesh, plan.mesh);
  EXPECT_TRUE(ValidatePlan(*parsed, graph, 64).ok());
}

// As scripts write them that know but one kind of number.
TEST(PlanJson, WholeNumbersMayBeWrittenWithAPointOrAnExponent) {
  const absl::StatusOr<Plan> plan = PlanFromJson(
      R"({"colonnade_plan": 1.0, "mesh": [{"name": "m", "size": 2.0}], "layers": {}, "bucket_bytes": 1e6,
          "piece_bytes": 65536.0, "transfer_parts": 4.0, "device_order": [1.0, 0.0]})");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->mesh.axes[0].size, 2);
  EXPECT_EQ(plan->bucket_bytes, 1'000'000);
  EXPECT_EQ(plan->piece_bytes, 65536);
  EXPECT_EQ(plan->transfer_parts, 4);
  EXPECT_EQ(plan->device_order, (std::vector<int>{1, 0}));
}

struct BadPlan {
  const char* json;
  const char* message;
};
void PrintTo(const BadPlan& bad, std::ostream* out) { *out << bad.message; }
class BadPlanFile : public ::testing::TestWithParam<BadPlan> {};

TEST_P(BadPlanFile, IsRefusedNamingTheField) {
  const absl::Status status = PlanFromJson(GetParam().json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << GetParam().json;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message)) << GetParam().json;
}
INSTANTIATE_TEST_SUITE_P(
    Fields, BadPlanFile,
    ::testing::Values(
        BadPlan{"", "line 1, column 1"}, BadPlan{"[]", "one JSON object"}, BadPlan{"{}", "colonnade_plan"},
        BadPlan{R"({"colonnade_model": 1, "name": "mine"})", "expected a plan file, found a network file; --model takes it"},
        BadPlan{R"({"colonnade_plan": 2, "mesh": [], "layers": {}})", "version 1"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [], "layers": {}})", "mesh"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 0}], "layers": {}})", "mesh"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": {"a": {"name": "m", "size": 2}}, "layers": {}})",
                "field mesh: expected a list of"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": []})",
                "field layers: expected an object"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "name": 1})",
                "field name: expected text, found 1"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 1}], "layers": {}, "device_order": {"a": 0}})",
                "field device_order: expected a list of the numbers of devices"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}, {"name": "m", "size": 2}], "layers": {}})",
                "mesh"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {"conv1": "column"}})",
                "layers.conv1"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {"conv1": ["colum"]}})",
                "layers.conv1: expected replicate, batch, column, group or row, found \"colum\"; did you mean \"column\"?"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "reducton": "x"})", "reducton"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "reduction": "x"})", "reduction"},
        BadPlan{
            R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "reduction": "all_reduce"})",
            "field reduction: expected all-reduce, sharded or master, found \"all_reduce\"; did you mean \"all-reduce\"?"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "overlap": 1})", "overlap"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "bucket_bytes": 0})",
                "bucket_bytes"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "piece_bytes": 1023})",
                "field piece_bytes: expected a whole number from 1024 to 2^40, found 1023"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "piece_bytes": 1099511627777})",
                "field piece_bytes: expected a whole number from 1024 to 2^40, found 1099511627777"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "transfer_parts": 0})",
                "field transfer_parts: expected a whole number from 1 to 64, found 0"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "transfer_parts": 65})",
                "field transfer_parts: expected a whole number from 1 to 64, found 65"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "device_order": [0, 2]})",
                "device_order"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "transfer_parts": 4294967297})",
                "field transfer_parts: expected a whole number from 1 to 64, found 4294967297"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, )"
                R"("bucket_bytes": 18446744073709551615})",
                "field bucket_bytes: expected a whole number from 1 to 2^40, found 18446744073709551615"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "bucket_bytes": 1.5})",
                "field bucket_bytes: expected a whole number from 1 to 2^40, found 1.5"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "bucket_bytes": 1e300})",
                "field bucket_bytes: expected a whole number from 1 to 2^40, found 1e+300"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "transfer_parts": 2147483648.0})",
                "field transfer_parts: expected a whole number from 1 to 64, found 2147483648.0"},
        BadPlan{"{\"colonnade_plan\": 1, \xc3(}", "last read: '1, \\303'"},
        BadPlan{R"({"colonnade_plan": 1, "a\nb": 1, "a\nb": 2})", R"(found key "a\nb" twice)"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 18446744073709551615}], "layers": {}})",
                "field mesh: expected a list of"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {"conv1": []}})",
                "field layers.conv1: expected a list of 1 strategy, one for each axis, found 0"},
        BadPlan{R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "device_order": [1, 1]})",
                "field device_order: expected each of 2 devices once, found [1,1]"},
        BadPlan{
            R"({"colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}, "device_order": [4294967296, 1]})",
            "field device_order: expected a list of the numbers of devices, found [4294967296,1]"},
        BadPlan{R"({"colonnade_plan": 1, "colonnade_plan": 1, "mesh": [{"name": "m", "size": 2}], "layers": {}})",
                "twice"}));

TEST(ValidatePlan, PartsOfTransfersAreOneTo64) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("hybrid", graph, 4);
  for (const auto& [parts, is_valid] : std::vector<std::pair<int, bool>>{{0, false}, {1, true}, {64, true}, {65, false}}) {
    plan.transfer_parts = parts;
    EXPECT_EQ(ValidatePlan(plan, graph, 64).ok(), is_valid) << parts;
  }
}

struct FieldCase {
  const char* message;  // absent: the plan is valid
  std::function<void(Plan&)> change;
};

// Both doors for plans made in C++ and the door for files say the same of each.
TEST(CheckPlanFields, TakesTheLastOfEachRangeAndNamesWhatIsBeyond) {
  const auto with_axes = [](std::vector<program::MeshAxis> axes) {
    return [axes = std::move(axes)](Plan& plan) {
      plan.mesh.axes = axes;
      for (auto& [layer, strategies] : plan.layers) strategies.assign(axes.size(), Strategy::kReplicate);
    };
  };
  constexpr int64_t kHuge = int64_t{1} << 62;
  const FieldCase cases[] = {
      {"field mesh: expected at least one axis, found no axes", with_axes({})},
      {"field mesh: expected axes of a size from 1 to 4096, found axis \"a\" of size -1", with_axes({{"a", -1}})},
      {"field mesh: expected axes of a size from 1 to 4096, found axis \"a\" of size 0", with_axes({{"a", 0}})},
      {nullptr, with_axes({{"a", 1}})},
      {nullptr, with_axes({{"a", 4096}})},
      {"found axis \"a\" of size 4097", with_axes({{"a", 4097}})},
      {"found axis \"b\" of size 0", with_axes({{"a", 2}, {"b", 0}})},
      {"of size 4611686018427387904", with_axes({{"a", kHuge}, {"b", kHuge}})},
      {nullptr, with_axes({{"a", 64}, {"b", 64}})},
      {"field mesh: expected at most 4096 devices, found 64 x 65", with_axes({{"a", 64}, {"b", 65}})},
      {"found 4096 x 4096 x 4096", with_axes({{"a", 4096}, {"b", 4096}, {"c", 4096}})},
      {"field mesh: expected axes of different names, found axis \"a\" twice", with_axes({{"a", 2}, {"a", 2}})},
      {"field layers.conv1: expected a list of 2 strategies, one for each axis, found 1",
       [](Plan& plan) { plan.layers["conv1"].pop_back(); }},
      {"field layers.conv1: expected a list of 2 strategies, one for each axis, found 3",
       [](Plan& plan) { plan.layers["conv1"].push_back(Strategy::kReplicate); }},
      {"field bucket_bytes: expected a whole number from 1 to 2^40, found 0", [](Plan& plan) { plan.bucket_bytes = 0; }},
      {nullptr, [](Plan& plan) { plan.bucket_bytes = 1; }},
      {nullptr, [](Plan& plan) { plan.bucket_bytes = kMostPlanBytes; }},
      {"2^40, found 1099511627777", [](Plan& plan) { plan.bucket_bytes = kMostPlanBytes + 1; }},
      {"field piece_bytes: expected a whole number from 1024 to 2^40, found 0", [](Plan& plan) { plan.piece_bytes = 0; }},
      {"found 1023", [](Plan& plan) { plan.piece_bytes = kLeastPieceBytes - 1; }},
      {nullptr, [](Plan& plan) { plan.piece_bytes = kLeastPieceBytes; }},
      {nullptr, [](Plan& plan) { plan.piece_bytes = kMostPlanBytes; }},
      {"2^40, found 1099511627777", [](Plan& plan) { plan.piece_bytes = kMostPlanBytes + 1; }},
      {"field transfer_parts: expected a whole number from 1 to 64, found 0", [](Plan& plan) { plan.transfer_parts = 0; }},
      {nullptr, [](Plan& plan) { plan.transfer_parts = 1; }},
      {nullptr, [](Plan& plan) { plan.transfer_parts = 64; }},
      {"found 65", [](Plan& plan) { plan.transfer_parts = 65; }},
      {nullptr,
       [](Plan& plan) {
         plan.device_order = {3, 2, 1, 0};
       }},
      {"field device_order: expected each of 4 devices once, found [0,1,2]",
       [](Plan& plan) {
         plan.device_order = {0, 1, 2};
       }},
      {"found [0,1,2,3,0]",
       [](Plan& plan) {
         plan.device_order = {0, 1, 2, 3, 0};
       }},
      {"found [0,1,2,4]",
       [](Plan& plan) {
         plan.device_order = {0, 1, 2, 4};
       }},
      {"found [-1,1,2,3]",
       [](Plan& plan) {
         plan.device_order = {-1, 1, 2, 3};
       }},
      {"found [0,1,1,3]",
       [](Plan& plan) {
         plan.device_order = {0, 1, 1, 3};
       }},
  };
  const layers::LayerGraph graph = Model("two_column");
  const Plan hybrid = Named("hybrid", graph, 4);
  for (const FieldCase& c : cases) {
    Plan plan = hybrid;
    c.change(plan);
    SCOPED_TRACE(c.message != nullptr ? c.message : PlanToJson(plan));
    if (c.message == nullptr) {
      EXPECT_TRUE(CheckPlanFields(plan).ok()) << CheckPlanFields(plan);
      EXPECT_TRUE(ValidatePlan(plan, graph, 4096).ok()) << ValidatePlan(plan, graph, 4096);
      EXPECT_TRUE(PlanFromJson(PlanToJson(plan)).ok());
      continue;
    }
    for (const absl::Status& refused :
         {CheckPlanFields(plan), ValidatePlan(plan, graph, 4096), PlanFromJson(PlanToJson(plan)).status()}) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(refused.message()), testing::StartsWith("plan \"hybrid\": field "));
      EXPECT_THAT(std::string(refused.message()), HasSubstr(c.message));
    }
  }
}

TEST(ValidatePlan, ABatchIsOfOneSampleOrMore) {
  const layers::LayerGraph graph = Model("two_column");
  const Plan plan = Named("single", graph, 1);
  EXPECT_TRUE(ValidatePlan(plan, graph, 1).ok());
  for (int64_t batch : {0, -1, -64}) {
    for (const absl::Status& refused :
         {CheckBatchSize(graph, batch), ValidatePlan(plan, graph, batch),
          Lower(graph, plan, {.global_batch = batch}).status(), NamedPlan("single", graph, {.global_batch = batch}).status(),
          SearchPlans(graph, {.lower = {.global_batch = batch}}).status()}) {
      EXPECT_EQ(refused, absl::FailedPreconditionError(absl::StrCat("batch: expected at least 1, found ", batch)));
    }
  }
}

TEST(ValidatePlan, ThreeColumnsFor256ChannelsNameLayerAxisAndNearestSizes) {
  const layers::LayerGraph graph = Model("alexnet");
  Plan plan = Named("single", graph, 1);
  plan.mesh = Mesh::ReplicasByColumns(1, 3);
  plan.layers["features.8"] = {Strategy::kReplicate, Strategy::kColumn};
  const absl::Status status = ValidatePlan(plan, graph, 64);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part : {"\"features.8\"", "\"model\"", "found 256", "255 or 258"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(ValidatePlan, MissingAndUnknownLayersAreNamed) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("model", graph, 2);
  plan.layers.erase("conv2");
  EXPECT_THAT(std::string(ValidatePlan(plan, graph, 64).message()), HasSubstr("\"conv2\""));
  plan.layers["conv9"] = {Strategy::kReplicate, Strategy::kReplicate};
  EXPECT_THAT(std::string(ValidatePlan(plan, graph, 64).message()), HasSubstr("\"conv9\""));
}

TEST(ValidatePlan, ALayerThatWasMeantIsNamedUnlessItCannotBeSplit) {
  const layers::LayerGraph graph = Model("two_column");
  auto error_with = [&](const char* layer) {
    Plan plan = Named("model", graph, 2);
    plan.layers[layer] = {Strategy::kReplicate, Strategy::kReplicate};
    return std::string(ValidatePlan(plan, graph, 64).message());
  };
  EXPECT_THAT(error_with("conv_3"), HasSubstr("no layer \"conv_3\" that can be split; did you mean \"conv3\"?"));
  EXPECT_THAT(error_with("images"), HasSubstr("no layer \"images\" that can be split"));
  EXPECT_THAT(error_with("images"), ::testing::Not(HasSubstr("did you mean")));
}

// 2^48 elements of activations of all layers together, or 2^60 flop forward: whichever comes first.
TEST(LargestBatch, IsTheLastThatEveryDoorTakes) {
  struct Case {
    const char* model;
    models::ModelOptions options;
  };
  for (const Case& c : {Case{"alexnet2012", {}}, Case{"lenet", {.classes = 1'000'000}},
                        Case{"resnet18", {.input_size = 2048}}, Case{"lenet", {.width = 64}}}) {
    SCOPED_TRACE(c.model);
    const layers::LayerGraph graph = Model(c.model, c.options);
    const int64_t largest = LargestBatch(graph);
    int64_t elements = 0;
    for (const layers::LayerNode& node : graph.nodes) elements += program::ElementCount(node.sample_shape);
    EXPECT_LE(largest * elements, int64_t{1} << 48);
    EXPECT_LE(largest * graph.ForwardFlops(1), int64_t{1} << 60);
    EXPECT_TRUE((largest + 1) * elements > int64_t{1} << 48 || (largest + 1) * graph.ForwardFlops(1) > int64_t{1} << 60);

    const Plan plan = Named("single", graph, 1, largest);
    EXPECT_TRUE(Lower(graph, plan, {.global_batch = largest}).ok());
    EXPECT_TRUE(Lower(graph, plan, {.mode = program::Mode::kEval, .global_batch = largest}).ok());
    EXPECT_TRUE(LowerRepresentatives(graph, plan, {.global_batch = largest}).ok());
    const std::vector<absl::Status> refusals = {ValidatePlan(plan, graph, largest + 1),
                                                NamedPlan("single", graph, {.global_batch = largest + 1}).status(),
                                                Lower(graph, plan, {.global_batch = largest + 1}).status(),
                                                LowerRepresentatives(graph, plan, {.global_batch = largest + 1}).status(),
                                                SearchPlans(graph, {.lower = {.global_batch = largest + 1}}).status()};
    for (const absl::Status& refused : refusals) {
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(refused.message()),
                  testing::StartsWith(absl::StrCat("batch: expected at most ", largest, " (")));
    }
  }
}

// 10^15 flop in each of ten thousand layers: their sum is beyond what an int64 counts.
TEST(LargestBatch, IsZeroWhereTheFlopOfOneSampleCannotBeCounted) {
  layers::GraphBuilder net("large");
  auto x = net.Input("images", {262144, 85, 85});
  for (int i = 0; i < 9990; ++i) x = net.Conv2d(absl::StrCat("conv", i), x, {.out_channels = 262144, .kernel = 1});
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", net.GlobalAvgPool("pool", x)));
  const layers::LayerGraph graph = *std::move(net).Build();
  EXPECT_GT(graph.ForwardFlops(1), int64_t{1} << 60);
  EXPECT_EQ(LargestBatch(graph), 0);
}

// 2^28 blocks of 2^8 channels.
TEST(Lower, ANormalisationOfManyBlocksOfManyChannelsIsLowered) {
  layers::GraphBuilder net("wide");
  auto x = net.Conv2d("wide", net.Input("images", {1, 1, 1}), {.out_channels = int64_t{1} << 36, .kernel = 1});
  x = net.Lrn("lrn", x, {.groups = int64_t{1} << 28});
  x = net.Conv2d("narrow", x, {.out_channels = 2, .kernel = 1, .groups = 2});
  net.SoftmaxCrossEntropy("loss", net.Flatten("flatten", x));
  const layers::LayerGraph graph = *std::move(net).Build();
  EXPECT_TRUE(Lower(graph, Named("single", graph, 1), {.global_batch = 1}).ok());
}

// All of them together, since each has values of its own.
TEST(LargestBatch, IsThatOfAllMicroBatches) {
  const layers::LayerGraph graph = Model("lenet");
  const int64_t batch = LargestBatch(graph) / 4 * 4 + 4;
  const absl::Status refused = Lower(graph, Named("single", graph, 1), {.global_batch = batch, .micro_batches = 4}).status();
  EXPECT_THAT(std::string(refused.message()), testing::StartsWith("batch: "));
}

TEST(NamedPlan, AnUnknownNameIsAnsweredWithTheNearest) {
  const layers::LayerGraph graph = Model("two_column");
  auto error_of = [&](const char* name) {
    const absl::Status status = NamedPlan(name, graph, {.devices = 4}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(error_of("hybird"), HasSubstr("unknown plan \"hybird\", did you mean \"hybrid\"?; expected one of single, "));
  EXPECT_THAT(error_of("autoo"), HasSubstr("did you mean \"auto\"?"));
  EXPECT_THAT(error_of("auto"), HasSubstr("a search finds it for a machine (SearchPlans); expected one of single, "));
}

TEST(NamedPlan, EveryNameButThatOfASearchIsOfOne) {
  for (const std::string& name : PlanNames()) EXPECT_TRUE(IsNamedPlan(name)) << name;
  EXPECT_FALSE(IsNamedPlan(kAutoPlan));
}

TEST(ValidatePlan, ADeviceOrderHasEachDeviceOnceAndAMeshHasAxes) {
  const layers::LayerGraph graph = Model("two_column");
  Plan plan = Named("model", graph, 2);
  plan.device_order = {1, 1};
  EXPECT_THAT(std::string(ValidatePlan(plan, graph, 64).message()), HasSubstr("device_order"));
  plan.device_order = {1, 0};
  EXPECT_TRUE(ValidatePlan(plan, graph, 64).ok());
  plan.mesh.axes.clear();
  EXPECT_THAT(std::string(ValidatePlan(plan, graph, 64).message()), HasSubstr("no axes"));
}

TEST(PlanJson, ADeepOrHugeMeshIsRefused) {
  EXPECT_FALSE(PlanFromJson(std::string(200'000, '[')).ok());
  const char* huge =
      R"({"colonnade_plan": 1, "mesh": [{"name": "a", "size": 4096}, {"name": "b", "size": 4096}], "layers": {}})";
  EXPECT_THAT(std::string(PlanFromJson(huge).status().message()), HasSubstr("at most 4096 devices"));
}

TEST(ValidatePlan, ABatchThatDoesNotSplitIsAUsageError) {
  const layers::LayerGraph graph = Model("two_column");
  const absl::Status status = NamedPlan("data", graph, {.devices = 4, .global_batch = 66}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64 or 68"));
}

// A convolution, and normalisations by groups of so many samples.
layers::LayerGraph WithGroupsOf(std::initializer_list<int64_t> sizes) {
  layers::GraphBuilder net("groups");
  auto x = net.Conv2d("conv", net.Input("images", {3, 4, 4}), {.out_channels = 4});
  for (int64_t size : sizes) x = net.BatchNorm(absl::StrCat("norm", size), x, {.samples_per_group = size});
  net.SoftmaxCrossEntropy("loss", net.FullyConnected("fc", net.Flatten("flatten", x), {.out_features = 4}));
  return std::move(net).Build().value();
}

TEST(ValidatePlan, BatchesThatAreNamedSuitAllLayers) {
  const auto named = [](const layers::LayerGraph& graph, int devices, int64_t batch) {
    return NamedPlan("data", graph, {.devices = devices, .global_batch = batch});
  };
  const layers::LayerGraph eights = WithGroupsOf({8}), both = WithGroupsOf({6, 4});
  EXPECT_THAT(std::string(named(eights, 4, 66).status().message()),
              HasSubstr("layer \"conv\": a global batch of 66 does not split over 4 devices; nearest that work: 64 or 96"));
  EXPECT_THAT(std::string(named(both, 1, 18).status().message()),
              HasSubstr("groups of 4 samples; nearest that work: 12 or 24"));
  const absl::StatusOr<Plan> plan = named(eights, 4, 64);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(std::string(ValidatePlan(*plan, eights, 34).message()), HasSubstr("4 devices; nearest that work: 32 or 64"));
  const layers::LayerGraph apart = WithGroupsOf({(int64_t{1} << 30) - 1, (int64_t{1} << 30) + 1});
  EXPECT_THAT(std::string(named(apart, 1, 18).status().message()), HasSubstr("samples; none works for all layers"));
}

TEST(NamedPlan, TwoColumnsNeedNoCommunicationInGroupedLayers) {
  const Plan plan = Named("model", Model("alexnet2012"), 2);
  EXPECT_EQ(plan.layers.at("conv1")[1], Strategy::kColumn);
  EXPECT_EQ(plan.layers.at("conv2")[1], Strategy::kGroup);
  EXPECT_EQ(plan.layers.at("conv3")[1], Strategy::kColumn);
  EXPECT_EQ(plan.layers.at("conv4")[1], Strategy::kGroup);
  EXPECT_EQ(plan.layers.at("fc6")[1], Strategy::kColumn);
  EXPECT_TRUE(plan.notes.empty());
}

TEST(NamedPlan, OwtSplitsConvolutionsByBatchAndFullyConnectedLayersByColumn) {
  const Plan plan = Named("owt", Model("alexnet"), 4);
  EXPECT_EQ(plan.layers.at("features.0")[0], Strategy::kBatch);
  EXPECT_EQ(plan.layers.at("classifier.1")[0], Strategy::kColumn);
  EXPECT_EQ(plan.layers.at("classifier.6")[0], Strategy::kColumn);
}

// A pooling between two modules is done on sections, so that less is gathered; one inside a module shares what the
// convolutions beside it gather.
TEST(NamedPlan, APoolingTakesAConcatenationAsItLiesWhereNothingElseReadsIt) {
  const Plan plan = Named("model", Model("googlenet"), 4);
  EXPECT_EQ(plan.layers.at("inception3a.concat")[1], Strategy::kGroup);
  EXPECT_EQ(plan.layers.at("pool3")[1], Strategy::kGroup);
  EXPECT_EQ(plan.layers.at("pool5")[1], Strategy::kGroup);
  EXPECT_EQ(plan.layers.at("inception3b.pool")[1], Strategy::kReplicate);
  EXPECT_EQ(plan.layers.at("dropout")[1], Strategy::kReplicate);
}

TEST(NamedPlan, SizesThatDoNotDivideAreReplicatedAndSaid) {
  const Plan plan = Named("model", Model("lenet"), 4);
  ASSERT_FALSE(plan.notes.empty());
  EXPECT_THAT(plan.notes[0], HasSubstr("replicated"));
}

TEST(NamedPlan, UnknownNamesAndImpossibleMeshesAreUsageErrors) {
  const layers::LayerGraph graph = Model("two_column");
  EXPECT_EQ(NamedPlan("hybird", graph, {.devices = 2}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(NamedPlan("single", graph, {.devices = 2}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(NamedPlan("hybrid", graph, {.devices = 3}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(NamedPlan("data", graph, {.devices = 0}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(NamedPlan, ThatWouldSplitNothingIsRefused) {
  const absl::Status status = NamedPlan("model", Model("two_column"), {.devices = 7}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing"));
}

}  // namespace
}  // namespace colonnade::partition
