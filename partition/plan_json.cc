// Plans as JSON files (the form is in plan.h).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_files.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "partition/plan.h"
#include "partition/plan_fields.h"

namespace colonnade::partition {
namespace {

using Json = nlohmann::ordered_json;
using layers::Strategy;

constexpr int kVersion = 1;
constexpr int kDeepest = 8;

constexpr char kMeshForm[] = "a list of {\"name\": text, \"size\": whole number from 1}";

absl::Status WrongInFile(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return WrongField(/*plan_name=*/"", field, expected, found);
}

std::string Found(const Json& value) { return Shortened(value.dump(-1, ' ', true, Json::error_handler_t::replace)); }

// Reads a whole number that `Int` holds, also where it is written as 64.0 or 1e6. Whether it is in the range of its field is
// for CheckPlanFields to say.
template <class Int>
bool ReadWholeNumber(const Json& value, Int& number) {
  if (value.is_number_float()) {
    constexpr double kFirstNotHeld = -static_cast<double>(std::numeric_limits<Int>::min());
    const auto found = value.get<double>();
    const bool is_whole = found == std::floor(found) && found >= -kFirstNotHeld && found < kFirstNotHeld;
    if (is_whole) number = static_cast<Int>(found);
    return is_whole;
  }
  if (!value.is_number_integer()) return false;
  const bool is_held =
      value.is_number_unsigned() ? std::in_range<Int>(value.get<uint64_t>()) : std::in_range<Int>(value.get<int64_t>());
  if (is_held) number = value.get<Int>();
  return is_held;
}

// "a, b or c". REQUIRES: two names or more.
std::string OneOf(const std::vector<std::string>& names) {
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " or ", names.back());
}

// A name that is none of `known`, with the one that was probably meant.
std::string Suggested(const Json& name, const std::vector<std::string>& known) {
  if (!name.is_string()) return Found(name);
  return absl::StrCat(Found(name), base::DidYouMean("; ", name.get<std::string>(), known));
}

absl::Status ParseMesh(const Json& value, Mesh& mesh) {
  if (!value.is_array()) return WrongInFile("mesh", kMeshForm, Found(value));
  for (const Json& axis : value) {
    program::MeshAxis& parsed = mesh.axes.emplace_back();
    const bool has_form = axis.is_object() && axis.size() == 2 && axis.contains("name") && axis.contains("size") &&
                          axis["name"].is_string() && ReadWholeNumber(axis["size"], parsed.size);
    if (!has_form) return WrongInFile("mesh", kMeshForm, Found(axis));
    parsed.name = axis["name"].get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status ParseLayers(const Json& value, const Mesh& mesh, std::map<std::string, std::vector<Strategy>>& parsed) {
  if (!value.is_object()) return WrongInFile("layers", "an object from layer name to a list of strategies", Found(value));
  for (const auto& [layer, list] : value.items()) {
    const std::string field = absl::StrCat("layers.", layer);
    if (!list.is_array()) return WrongInFile(field, StrategiesFor(mesh), Found(list));
    parsed[layer];  // also where the list is empty
    for (const Json& name : list) {
      std::optional<Strategy> strategy = name.is_string() ? layers::StrategyFromName(name.get<std::string>()) : std::nullopt;
      if (!strategy) {
        const std::vector<std::string> names = layers::StrategyNames();
        return WrongInFile(field, OneOf(names), Suggested(name, names));
      }
      parsed[layer].push_back(*strategy);
    }
  }
  return absl::OkStatus();
}

absl::Status ParseReduction(const Json& value, Reduction& reduction) {
  const std::optional<Reduction> parsed = value.is_string() ? ReductionFromName(value.get<std::string>()) : std::nullopt;
  if (!parsed) return WrongInFile("reduction", OneOf(ReductionNames()), Suggested(value, ReductionNames()));
  reduction = *parsed;
  return absl::OkStatus();
}

absl::Status ParseDeviceOrder(const Json& value, std::vector<int>& order) {
  bool are_numbers = value.is_array();
  for (const Json& device : value) are_numbers = are_numbers && ReadWholeNumber(device, order.emplace_back());
  return are_numbers ? absl::OkStatus() : WrongInFile("device_order", "a list of the numbers of devices", Found(value));
}

absl::Status CheckFieldNames(const Json& root) {
  static const auto& fields =
      *new std::vector<std::string>{"colonnade_plan", "name",        "mesh",           "layers",       "reduction",
                                    "bucket_bytes",   "piece_bytes", "transfer_parts", "device_order", "overlap"};
  for (const auto& [field, value] : root.items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    return WrongInFile(field, absl::StrCat("one of ", absl::StrJoin(fields, ", ")),
                       absl::StrCat("an unknown field", base::DidYouMean("; ", field, fields)));
  }
  for (const char* needed : {"colonnade_plan", "mesh", "layers"}) {
    if (!root.contains(needed)) return WrongInFile(needed, "a value", "nothing");
  }
  if (root["colonnade_plan"] != kVersion) {
    return WrongInFile("colonnade_plan", absl::StrCat("version ", kVersion), Found(root["colonnade_plan"]));
  }
  return absl::OkStatus();
}

template <class Int>
absl::Status ParseNumber(const Json& root, const NumberField& field, Int& number) {
  if (!root.contains(field.name) || ReadWholeNumber(root[field.name], number)) return absl::OkStatus();
  return WrongInFile(field.name, RangeOf(field), Found(root[field.name]));
}

absl::Status ParseOptional(const Json& root, Plan& plan) {
  if (root.contains("name")) {
    if (!root["name"].is_string()) return WrongInFile("name", "text", Found(root["name"]));
    plan.name = root["name"].get<std::string>();
  }
  if (root.contains("overlap")) {
    if (!root["overlap"].is_boolean()) return WrongInFile("overlap", "true or false", Found(root["overlap"]));
    plan.overlap = root["overlap"].get<bool>();
  }
  RETURN_IF_ERROR(ParseNumber(root, kBucketBytesField, plan.bucket_bytes));
  RETURN_IF_ERROR(ParseNumber(root, kPieceBytesField, plan.piece_bytes));
  RETURN_IF_ERROR(ParseNumber(root, kTransferPartsField, plan.transfer_parts));
  if (root.contains("reduction")) {
    RETURN_IF_ERROR(ParseReduction(root["reduction"], plan.reduction));
  }
  if (root.contains("device_order")) return ParseDeviceOrder(root["device_order"], plan.device_order);
  return absl::OkStatus();
}

}  // namespace

std::string PlanToJson(const Plan& plan) {
  Json root;
  root["colonnade_plan"] = kVersion;
  root["name"] = plan.name;
  root["mesh"] = Json::array();
  for (const program::MeshAxis& axis : plan.mesh.axes) root["mesh"].push_back({{"name", axis.name}, {"size", axis.size}});
  root["reduction"] = Name(plan.reduction);
  root["overlap"] = plan.overlap;
  root["bucket_bytes"] = plan.bucket_bytes;
  root["piece_bytes"] = plan.piece_bytes;
  if (plan.transfer_parts != 1) root["transfer_parts"] = plan.transfer_parts;
  if (!plan.device_order.empty()) root["device_order"] = plan.device_order;
  root["layers"] = Json::object();
  for (const auto& [layer, strategies] : plan.layers) {
    root["layers"][layer] = Json::array();
    for (Strategy s : strategies) root["layers"][layer].push_back(layers::Name(s));
  }
  return root.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Plan> PlanFromJson(absl::string_view json) {
  RETURN_IF_ERROR(base::CheckKindOfJson("colonnade_plan", json));
  absl::StatusOr<Json> parsed = base::ParseJson<Json>(json, kDeepest);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("plan: ", parsed.status().message()));
  const Json& root = *parsed;
  if (!root.is_object()) return absl::InvalidArgumentError("plan: expected one JSON object, found " + Found(root));
  Plan plan;
  RETURN_IF_ERROR(CheckFieldNames(root));
  RETURN_IF_ERROR(ParseMesh(root["mesh"], plan.mesh));
  RETURN_IF_ERROR(ParseLayers(root["layers"], plan.mesh, plan.layers));
  RETURN_IF_ERROR(ParseOptional(root, plan));
  RETURN_IF_ERROR(CheckPlanFields(plan));
  return plan;
}

}  // namespace colonnade::partition
