#include "tools/rows.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_files.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "engine/json_fields.h"
#include "engine/precision.h"
#include "models/models.h"
#include "partition/lower.h"
#include "partition/named_plans.h"
#include "partition/planner.h"
#include "tools/planning.h"

namespace colonnade::tools {
namespace {

using engine::JsonFields;

constexpr char kVersionField[] = "colonnade_rows";
constexpr int kDeepest = 8;
constexpr double kSecondsPerDay = 86400;
constexpr double kMomentum = 0.9, kWeightDecay = 5e-4;

constexpr engine::Bounds kBatches{1, 1 << 30}, kDevices{1, program::kMostDevices}, kImages{1, 1e15}, kPasses{1, 1e6},
    kTimesTaken{1e-6, 1e12};
constexpr double kLongestStep = 1e5;  // seconds; profiles hold none that is longer

enum class Scaling { kStrong, kWeak };
constexpr const char* kScalings[] = {"strong", "weak"};
constexpr const char* kTimes[] = {"step_ms", "images_per_sec", "days"};

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const models::ModelInfo& model : models::AllModels()) names.push_back(model.name);
  return names;
}

// What holds for all rows that say nothing else.
struct Defaults {
  std::string model;
  int64_t batch = 0;
  Scaling scaling = Scaling::kStrong;
  program::DType dtype = program::DType::kF32;
  int64_t batch_norm_samples = 0;
  bool has_f32_pixels = false;
};

program::DType ReadDType(JsonFields& fields, program::DType otherwise) {
  std::string precision = engine::PrecisionOf(otherwise);
  if (fields.Find("dtype") != nullptr) fields.Word("dtype", {"fp32", "bf16"}, precision);
  return engine::DTypeOf(precision);
}

// The time of a row, of which it states one form at most.
double ReadTime(JsonFields& fields, const RowTable& table, int64_t global_batch, const JsonFields::Json& json,
                absl::Status& status) {
  double seconds = 0;
  int stated = 0;
  for (const char* form : kTimes) {
    double number = 0;
    fields.Number(form, number, false, kTimesTaken);
    if (number == 0) continue;
    ++stated;
    if (form == kTimes[0]) seconds = number / 1e3;
    if (form == kTimes[1]) seconds = static_cast<double>(global_batch) / number;
    if (form == kTimes[2] && table.images == 0 && status.ok()) {
      status = absl::InvalidArgumentError(absl::StrCat(
          fields.Path(form), ": expected \"images\" in the table, found none; without it give step_ms or images_per_sec"));
    }
    if (form == kTimes[2] && table.images > 0) seconds = table.StepOf(number, global_batch);
    if (seconds > kLongestStep) fields.Fail(form, absl::StrFormat("a step of at most %g s", kLongestStep), json[form]);
  }
  if (stated > 1 && status.ok()) {
    status = absl::InvalidArgumentError(
        absl::StrFormat("%s: expected one of step_ms, images_per_sec and days, found %d", fields.Path(""), stated));
  }
  return seconds;
}

Row ReadRow(const JsonFields::Json& json, const std::string& path, const RowTable& table, const Defaults& defaults,
            absl::Status& status) {
  Row row;
  row.model = defaults.model;
  row.global_batch = defaults.batch;
  JsonFields fields(json, path, status);
  fields.Text("name", row.name, true);
  row.label = row.name;
  fields.Text("label", row.label);
  if (defaults.model.empty() || (json.is_object() && json.contains("model"))) {
    fields.Word("model", ModelNames(), row.model);
  } else {
    fields.Find("model");
  }
  fields.Count("devices", row.devices, true, kDevices);
  fields.Word("plan", partition::PlanNamesAndAuto(), row.plan);
  fields.Count("batch", row.global_batch, defaults.batch == 0, kBatches);
  Scaling scaling = defaults.scaling;
  fields.Choice("scaling", kScalings, scaling);
  if (scaling == Scaling::kWeak) row.global_batch *= row.devices;
  row.dtype = ReadDType(fields, defaults.dtype);
  row.batch_norm_samples = defaults.batch_norm_samples;
  row.has_f32_pixels = defaults.has_f32_pixels;
  fields.Count("batch_norm_samples", row.batch_norm_samples, false, kBatches);
  if (std::string reduction; fields.Find("reduction") != nullptr) {
    fields.Word("reduction", partition::ReductionNames(), reduction);
    row.reduction = partition::ReductionFromName(reduction);
  }
  if (fields.Find("overlap") != nullptr) fields.Flag("overlap", row.overlap.emplace());
  row.published_step_sec = ReadTime(fields, table, row.global_batch, json, status);
  fields.Finish();
  if (!status.ok()) return row;
  if (row.name.empty()) fields.Fail("name", "a name", json["name"]);
  for (const Row& other : table.rows) {
    if (other.name == row.name) fields.Fail("name", "a name that no other row has", json["name"]);
  }
  return row;
}

}  // namespace

double RowTable::DaysOf(double step_sec, int64_t global_batch) const {
  return step_sec * passes * std::ceil(images / static_cast<double>(global_batch)) / kSecondsPerDay;
}

double RowTable::StepOf(double days, int64_t global_batch) const {
  return days * kSecondsPerDay / (passes * std::ceil(images / static_cast<double>(global_batch)));
}

absl::StatusOr<RowTable> RowsFromJson(absl::string_view text) {
  RETURN_IF_ERROR(base::CheckKindOfJson(kVersionField, text));
  ASSIGN_OR_RETURN(JsonFields::Json json, base::ParseJson<JsonFields::Json>(text, kDeepest));
  absl::Status status;
  RowTable table;
  Defaults defaults;
  JsonFields fields(json, "", status);
  const JsonFields::Json* version = fields.Need(kVersionField);
  if (version != nullptr && *version != 1) fields.Fail(kVersionField, "version 1", *version);
  fields.Text("name", table.name);
  fields.Text("title", table.title, true);
  fields.Text("source", table.source);
  fields.Text("machine", table.machine);
  if (json.is_object() && json.contains("model")) fields.Word("model", ModelNames(), defaults.model);
  fields.Count("batch", defaults.batch, false, kBatches);
  fields.Choice("scaling", kScalings, defaults.scaling);
  defaults.dtype = ReadDType(fields, defaults.dtype);
  fields.Count("batch_norm_samples", defaults.batch_norm_samples, false, kBatches);
  engine::ReadPixelType(fields, defaults.has_f32_pixels);
  fields.Number("images", table.images, false, kImages);
  table.passes = 1;
  fields.Number("passes", table.passes, false, kPasses);
  fields.Each("rows", true, [&](const JsonFields::Json& row, const std::string& path) {
    table.rows.push_back(ReadRow(row, path, table, defaults, status));
  });
  fields.Finish();
  if (!status.ok()) return status;
  if (table.rows.empty()) return absl::InvalidArgumentError("rows: expected at least one, found none");
  return table;
}

const RowTable& PaperTable() {
  static const RowTable& table = *new RowTable([] {
    for (const data::EmbeddedFile& file : ShippedTables()) {
      if (file.name == "yadan-2013.json") return *RowsFromJson(file.bytes);
    }
    return RowTable();
  }());
  return table;
}

absl::StatusOr<partition::Plan> PlanOfRow(const Row& row, const layers::LayerGraph& graph, const engine::Machine& machine) {
  const partition::PlanSettings settings{.reduction = row.reduction, .overlap = row.overlap};
  if (row.plan == partition::kAutoPlan) {
    ASSIGN_OR_RETURN(const std::vector<partition::Candidate> candidates,
                     SearchPlansOn(machine, graph, LowerOptionsOf(row, graph), row.devices, {.settings = settings}));
    return candidates.front().plan;
  }
  ASSIGN_OR_RETURN(partition::Plan plan,
                   partition::NamedPlan(row.plan, graph, {.devices = row.devices, .global_batch = row.global_batch}));
  settings.ApplyTo(plan);
  return plan;
}

partition::LowerOptions LowerOptionsOf(const Row& row, const layers::LayerGraph& graph) {
  partition::LowerOptions options{
      .global_batch = row.global_batch,
      .dtype = row.dtype,
      .update = {.optimizer = program::Sgd{.momentum = kMomentum}, .weight_decay = kWeightDecay}};
  if (!row.has_f32_pixels) options.pixels = PixelsFromBytes(graph);
  return options;
}

absl::StatusOr<program::RepresentativeProgram> LowerRow(const Row& row, const layers::LayerGraph& graph,
                                                        const engine::Machine& machine, const partition::Plan& plan) {
  return LowerRepresentativesOn(machine, graph, plan, LowerOptionsOf(row, graph));
}

}  // namespace colonnade::tools
