// Tables of measured rows: what a file may say, what becomes of it, and what is refused with which message.
#include "tools/rows.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "engine/simulator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/models.h"
#include "tools/machines.h"

namespace colonnade::tools {
namespace {

using ::testing::HasSubstr;

constexpr char kTable[] = R"({
 "colonnade_rows": 1, "title": "two machines", "source": "a page", "model": "lenet", "batch": 32, "scaling": "weak",
 "images": 3200, "passes": 10,
 "rows": [{"name": "1", "devices": 1, "plan": "single", "step_ms": 5, "batch_norm_samples": 16},
          {"name": "4", "label": "four", "devices": 4, "plan": "data", "images_per_sec": 12800, "reduction": "sharded"},
          {"name": "2", "model": "two_column", "devices": 2, "plan": "model", "batch": 64, "scaling": "strong", "days": 1,
           "overlap": false},
          {"name": "2-auto", "devices": 2, "plan": "auto", "dtype": "bf16"}]
})";

std::string ErrorOf(const std::string& from, const std::string& to) {
  const std::string json = absl::StrReplaceAll(kTable, {{from, to}});
  EXPECT_NE(json, kTable) << from;
  const absl::Status status = RowsFromJson(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(LowerRow, ImagesAreBytesUnlessTheTableSaysOtherwise) {
  const layers::LayerGraph graph = *models::BuildModel("lenet", {});
  for (const bool f32 : {false, true}) {
    const absl::StatusOr<RowTable> table = RowsFromJson(
        absl::StrReplaceAll(kTable, {{R"("rows": [)", absl::StrCat(f32 ? R"("pixels": "fp32", )" : "", R"("rows": [)")}}));
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->rows[0].has_f32_pixels, f32);
    EXPECT_EQ(LowerOptionsOf(table->rows[0], graph).pixels.has_value(), !f32);
  }
  EXPECT_THAT(ErrorOf(R"("passes": 10)", R"("passes": 10, "pixels": "fp16")"), HasSubstr("pixels: unknown name \"fp16\""));
  EXPECT_TRUE(PaperTable().rows[0].has_f32_pixels);
}

TEST(RowsFromJson, RowsSayWhatTheyDoOtherwiseThanTheTable) {
  const absl::StatusOr<RowTable> table = RowsFromJson(kTable);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<Row>& rows = table->rows;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].label, "1");
  EXPECT_EQ(rows[0].model, "lenet");
  EXPECT_EQ(rows[0].global_batch, 32);
  EXPECT_DOUBLE_EQ(rows[0].published_step_sec, 0.005);
  EXPECT_FALSE(rows[0].reduction.has_value());
  EXPECT_EQ(rows[1].label, "four");
  EXPECT_EQ(rows[1].global_batch, 128) << "32 on each of four";
  EXPECT_DOUBLE_EQ(rows[1].published_step_sec, 0.01);
  EXPECT_EQ(rows[1].reduction, partition::Reduction::kSharded);
  EXPECT_EQ(rows[2].model, "two_column");
  EXPECT_EQ(rows[2].global_batch, 64) << "of both together";
  EXPECT_EQ(rows[2].overlap, false);
  EXPECT_DOUBLE_EQ(rows[2].published_step_sec, 86400.0 / (10 * 50));
  EXPECT_DOUBLE_EQ(table->DaysOf(rows[2].published_step_sec, 64), 1);
  EXPECT_EQ(rows[3].published_step_sec, 0);
  EXPECT_EQ(rows[0].batch_norm_samples, 16);
  EXPECT_EQ(rows[1].batch_norm_samples, 0);
  EXPECT_EQ(rows[2].dtype, program::DType::kF32);
  EXPECT_EQ(rows[3].dtype, program::DType::kBF16);
}

TEST(RowsFromJson, NamesWhatIsWrongWhereItIs) {
  EXPECT_THAT(ErrorOf(R"("colonnade_rows": 1)", R"("colonnade_rows": 2)"), HasSubstr("colonnade_rows: expected version 1"));
  EXPECT_THAT(ErrorOf(R"("plan": "data")", R"("plan": "dada")"),
              HasSubstr("rows[1].plan: unknown name \"dada\", did you mean \"data\"?"));
  EXPECT_THAT(ErrorOf(R"("model": "two_column")", R"("model": "two_colum")"),
              HasSubstr("rows[2].model: unknown name \"two_colum\", did you mean \"two_column\"?"));
  EXPECT_THAT(ErrorOf(R"("model": "lenet", )", ""), HasSubstr("rows[0].model: missing"));
  EXPECT_THAT(ErrorOf(R"("batch": 32, )", ""), HasSubstr("rows[0].batch: missing"));
  EXPECT_THAT(ErrorOf(R"("devices": 4)", R"("devices": 2.5)"),
              HasSubstr("rows[1].devices: expected a whole number from 1 to 4096, found 2.5"));
  EXPECT_THAT(ErrorOf(R"("step_ms": 5,)", R"("step_ms": 0,)"),
              HasSubstr("rows[0].step_ms: expected a number from 1e-06 to 1e+12, found 0"));
  EXPECT_THAT(ErrorOf(R"("step_ms": 5,)", R"("step_ms": 2e8,)"),
              HasSubstr("rows[0].step_ms: expected a step of at most 100000 s, found 200000000.0"));
  EXPECT_THAT(ErrorOf(R"("images_per_sec": )", R"("images_per_sec": 0.0001, "was": )"),
              HasSubstr("rows[1].images_per_sec: expected a step of at most 100000 s, found 0.0001"));
  EXPECT_THAT(ErrorOf(R"("step_ms": 5,)", R"("step_ms": 5, "days": 1,)"),
              HasSubstr("rows[0]: expected one of step_ms, images_per_sec and days, found 2"));
  EXPECT_THAT(ErrorOf(R"("images": 3200, )", ""),
              HasSubstr("rows[2].days: expected \"images\" in the table, found none; without it give step_ms"));
  EXPECT_THAT(ErrorOf(R"("name": "4")", R"("name": "1")"),
              HasSubstr("rows[1].name: expected a name that no other row has, found \"1\""));
  EXPECT_THAT(ErrorOf(R"("reduction": "sharded")", R"("reduction": "ring")"),
              HasSubstr("rows[1].reduction: unknown name \"ring\"; expected one of all-reduce, sharded, master"));
  EXPECT_THAT(ErrorOf(R"("dtype": "bf16")", R"("dtype": "fp16")"),
              HasSubstr("rows[3].dtype: unknown name \"fp16\", did you mean \"fp32\"?; expected one of fp32, bf16"));
  EXPECT_THAT(ErrorOf(R"("label": "four")", R"("labels": "four")"), HasSubstr("did you mean \"label\"?"));
  EXPECT_THAT(ErrorOf(R"("scaling": "weak")", R"("scaling": "none")"), HasSubstr("expected one of strong, weak"));
  EXPECT_THAT(std::string(RowsFromJson(R"({"colonnade_rows": 1, "title": "t", "rows": []})").status().message()),
              HasSubstr("rows: expected at least one, found none"));
  EXPECT_THAT(ErrorOf(R"({"name": "4", "label")", R"(5, {"name": "4", "label")"),
              HasSubstr("rows[1]: expected an object, found 5"));
  EXPECT_THAT(ErrorOf(R"({"name": "4", "label")", R"({"label")"), HasSubstr("rows[1].name: missing"));
  EXPECT_THAT(ErrorOf(R"("name": "4")", R"("name": "")"), HasSubstr("rows[1].name: expected a name, found \"\""));
  EXPECT_THAT(std::string(RowsFromJson("{\n,").status().message()), HasSubstr("line 2, column 1"));
}

TEST(PlanOfRow, TakesReductionAndOverlapFromTheRow) {
  const layers::LayerGraph lenet = *models::BuildModel("lenet", {});
  const absl::StatusOr<engine::Machine> machine = OpenMachine("titan-2013");
  Row row{.name = "2",
          .label = "",
          .model = "lenet",
          .devices = 2,
          .plan = "data",
          .global_batch = 64,
          .reduction = {},
          .overlap = {}};
  absl::StatusOr<partition::Plan> plan = PlanOfRow(row, lenet, *machine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->reduction, partition::Reduction::kAllReduce);
  EXPECT_TRUE(plan->overlap);
  row.reduction = partition::Reduction::kMaster;
  row.overlap = false;
  plan = PlanOfRow(row, lenet, *machine);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->reduction, partition::Reduction::kMaster);
  EXPECT_FALSE(plan->overlap);
}

// What is the best of two devices by itself, is not with what the row sets.
TEST(PlanOfRow, SearchesWithReductionAndOverlapOfTheRow) {
  const layers::LayerGraph alexnet = *models::BuildModel("alexnet", {});
  const engine::Machine machine = *OpenMachine("titan-2013");
  Row row{.model = "alexnet", .devices = 2, .plan = "auto", .global_batch = 256};
  const auto seconds = [&](const partition::Plan& plan) {
    return absl::ToDoubleSeconds(engine::Simulate(*LowerRow(row, alexnet, machine, plan), machine)->step);
  };
  partition::Plan set_afterwards = *PlanOfRow(row, alexnet, machine);
  row.reduction = set_afterwards.reduction = partition::Reduction::kMaster;
  row.overlap = set_afterwards.overlap = false;
  const partition::Plan found = *PlanOfRow(row, alexnet, machine);
  EXPECT_EQ(found.reduction, partition::Reduction::kMaster);
  EXPECT_FALSE(found.overlap);
  EXPECT_LT(seconds(found), seconds(set_afterwards));
}

TEST(LowerRow, ComputesInTheTypeOfTheRow) {
  const layers::LayerGraph lenet = *models::BuildModel("lenet", {});
  for (program::DType dtype : {program::DType::kF32, program::DType::kBF16}) {
    const Row row{.model = "lenet", .plan = "single", .global_batch = 64, .dtype = dtype};
    const engine::Machine machine = *OpenMachine("dgx1-v100");
    const absl::StatusOr<partition::Plan> plan = PlanOfRow(row, lenet, machine);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::StatusOr<program::RepresentativeProgram> program = LowerRow(row, lenet, machine, *plan);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->program.dtype, dtype);
  }
}

TEST(ShippedTables, AreGood) {
  std::vector<std::string> names;
  for (const data::EmbeddedFile& file : ShippedTables()) {
    const absl::StatusOr<RowTable> table = RowsFromJson(file.bytes);
    ASSERT_TRUE(table.ok()) << file.name << ": " << table.status();
    names.push_back(table->name);
    EXPECT_EQ(absl::StrCat(table->name, ".json"), file.name);
    EXPECT_THAT(table->source, testing::MatchesRegex(".*(arXiv:|github.com/).+")) << file.name << ": where it is from";
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("yadan-2013", "resnet50-dgx1-v100", "resnet50-dgx-a100",
                                                   "resnet50-mlperf-h100", "resnet50-mlperf-h100-3584"));
  EXPECT_FALSE(PaperTable().rows.empty());
}

// What others measured of ResNet-50: every row has a time, the machine that the table names has devices for all of them, and
// more devices do more images a second, though not more each.
TEST(ShippedTables, OfResNet50AreWhole) {
  for (const data::EmbeddedFile& file : ShippedTables()) {
    const RowTable table = *RowsFromJson(file.bytes);
    if (!absl::StartsWith(table.name, "resnet50")) continue;
    int devices = 0;
    double images_per_sec = 0;
    for (const Row& row : table.rows) {
      EXPECT_EQ(row.model, "resnet50") << table.name;
      ASSERT_GT(row.published_step_sec, 0) << table.name << ", row " << row.name;
      const double rate = static_cast<double>(row.global_batch) / row.published_step_sec;
      EXPECT_GT(row.devices, devices) << table.name << ", row " << row.name;
      if (devices > 0) {
        EXPECT_GT(rate, images_per_sec) << table.name << ", row " << row.name;
        EXPECT_LT(rate / row.devices, images_per_sec / devices * 1.1) << table.name << ", row " << row.name;
      }
      devices = row.devices;
      images_per_sec = rate;
      EXPECT_EQ(row.plan, devices == 1 ? "single" : "data") << table.name;
    }
    if (table.machine.empty()) continue;
    const absl::StatusOr<engine::Machine> machine = OpenMachine(table.machine);
    ASSERT_TRUE(machine.ok()) << table.name << ": " << machine.status();
    EXPECT_LE(devices, machine->device_count()) << table.name;
  }
}

}  // namespace
}  // namespace colonnade::tools
