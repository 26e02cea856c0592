#include "partition/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "layers/traits.h"
#include "nlohmann/json.hpp"
#include "partition/shardings.h"

namespace colonnade::partition {
namespace {

using Json = nlohmann::ordered_json;
using layers::Strategy;

constexpr int kVersion = 1;
constexpr int kDeepest = 8;
constexpr int64_t kMostActivations = int64_t{1} << 48;   // elements; Verify lets no buffer have more
constexpr int64_t kMostForwardFlops = int64_t{1} << 60;  // backward takes twice as many

constexpr char kMeshForm[] = "a list of {\"name\": text, \"size\": whole number from 1}";

// The range of a field that is a whole number.
struct NumberField {
  const char* name;
  int64_t least, most;
};
constexpr NumberField kBucketBytesField = {"bucket_bytes", 1, kMostPlanBytes};
constexpr NumberField kPieceBytesField = {"piece_bytes", kLeastPieceBytes, kMostPlanBytes};
constexpr NumberField kTransferPartsField = {"transfer_parts", 1, kMostTransferParts};

std::string RangeOf(const NumberField& field) {
  const std::string most = field.most == kMostPlanBytes ? "2^40" : absl::StrCat(field.most);
  return absl::StrFormat("a whole number from %d to %s", field.least, most);
}

absl::Status Wrong(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrFormat("plan: field %s: expected %s, found %s", field, expected, found));
}

absl::Status WrongIn(const Plan& plan, absl::string_view field, absl::string_view expected, absl::string_view found) {
  if (plan.name.empty()) return Wrong(field, expected, found);
  return absl::InvalidArgumentError(
      absl::StrFormat("plan \"%s\": field %s: expected %s, found %s", plan.name, field, expected, found));
}

std::string Shortened(std::string text) {
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string Found(const Json& value) { return Shortened(value.dump(-1, ' ', true, Json::error_handler_t::replace)); }

// Reads a whole number that `Int` holds. Whether it is in the range of its field is for CheckPlanFields to say.
template <class Int>
bool ReadWholeNumber(const Json& value, Int& number) {
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
  if (!value.is_array()) return Wrong("mesh", kMeshForm, Found(value));
  for (const Json& axis : value) {
    program::MeshAxis& parsed = mesh.axes.emplace_back();
    const bool has_form = axis.is_object() && axis.size() == 2 && axis.contains("name") && axis.contains("size") &&
                          axis["name"].is_string() && ReadWholeNumber(axis["size"], parsed.size);
    if (!has_form) return Wrong("mesh", kMeshForm, Found(axis));
    parsed.name = axis["name"].get<std::string>();
  }
  return absl::OkStatus();
}

std::string StrategiesFor(const Mesh& mesh) {
  return absl::StrFormat("a list of %d strategies, one for each axis", mesh.axis_count());
}

absl::Status ParseLayers(const Json& value, const Mesh& mesh, std::map<std::string, std::vector<Strategy>>& parsed) {
  if (!value.is_object()) return Wrong("layers", "an object from layer name to a list of strategies", Found(value));
  for (const auto& [layer, list] : value.items()) {
    const std::string field = absl::StrCat("layers.", layer);
    if (!list.is_array()) return Wrong(field, StrategiesFor(mesh), Found(list));
    parsed[layer];  // also where the list is empty
    for (const Json& name : list) {
      std::optional<Strategy> strategy = name.is_string() ? layers::StrategyFromName(name.get<std::string>()) : std::nullopt;
      if (!strategy) {
        const std::vector<std::string> names = layers::StrategyNames();
        return Wrong(field, OneOf(names), Suggested(name, names));
      }
      parsed[layer].push_back(*strategy);
    }
  }
  return absl::OkStatus();
}

absl::Status ParseReduction(const Json& value, Reduction& reduction) {
  const std::optional<Reduction> parsed = value.is_string() ? ReductionFromName(value.get<std::string>()) : std::nullopt;
  if (!parsed) return Wrong("reduction", OneOf(ReductionNames()), Suggested(value, ReductionNames()));
  reduction = *parsed;
  return absl::OkStatus();
}

absl::Status ParseDeviceOrder(const Json& value, std::vector<int>& order) {
  bool are_numbers = value.is_array();
  for (const Json& device : value) are_numbers = are_numbers && ReadWholeNumber(device, order.emplace_back());
  return are_numbers ? absl::OkStatus() : Wrong("device_order", "a list of the numbers of devices", Found(value));
}

absl::Status CheckFieldNames(const Json& root) {
  static const auto& fields =
      *new std::vector<std::string>{"colonnade_plan", "name",        "mesh",           "layers",       "reduction",
                                    "bucket_bytes",   "piece_bytes", "transfer_parts", "device_order", "overlap"};
  for (const auto& [field, value] : root.items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    return Wrong(field, absl::StrCat("one of ", absl::StrJoin(fields, ", ")),
                 absl::StrCat("an unknown field", base::DidYouMean("; ", field, fields)));
  }
  for (const char* needed : {"colonnade_plan", "mesh", "layers"}) {
    if (!root.contains(needed)) return Wrong(needed, "a value", "nothing");
  }
  if (root["colonnade_plan"] != kVersion) {
    return Wrong("colonnade_plan", absl::StrCat("version ", kVersion), Found(root["colonnade_plan"]));
  }
  return absl::OkStatus();
}

template <class Int>
absl::Status ParseNumber(const Json& root, const NumberField& field, Int& number) {
  if (!root.contains(field.name) || ReadWholeNumber(root[field.name], number)) return absl::OkStatus();
  return Wrong(field.name, RangeOf(field), Found(root[field.name]));
}

absl::Status ParseOptional(const Json& root, Plan& plan) {
  if (root.contains("name")) {
    if (!root["name"].is_string()) return Wrong("name", "text", Found(root["name"]));
    plan.name = root["name"].get<std::string>();
  }
  if (root.contains("overlap")) {
    if (!root["overlap"].is_boolean()) return Wrong("overlap", "true or false", Found(root["overlap"]));
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

const char* Name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kAllReduce:
      return "all-reduce";
    case Reduction::kSharded:
      return "sharded";
    case Reduction::kMaster:
      return "master";
  }
  return "";
}

std::optional<Reduction> ReductionFromName(absl::string_view name) {
  for (Reduction r : kReductions) {
    if (name == absl::string_view(Name(r))) return r;
  }
  return std::nullopt;
}

std::vector<std::string> ReductionNames() {
  std::vector<std::string> names;
  for (Reduction r : kReductions) names.emplace_back(Name(r));
  return names;
}

void PlanSettings::ApplyTo(Plan& plan) const {
  plan.reduction = reduction.value_or(plan.reduction);
  plan.overlap = overlap.value_or(plan.overlap);
  plan.bucket_bytes = bucket_bytes.value_or(plan.bucket_bytes);
  plan.piece_bytes = piece_bytes.value_or(plan.piece_bytes);
  plan.transfer_parts = transfer_parts.value_or(plan.transfer_parts);
}

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

namespace {

std::string SizesOf(const Mesh& mesh) {
  return Shortened(absl::StrJoin(mesh.axes, " x ",
                                 [](std::string* out, const program::MeshAxis& axis) { absl::StrAppend(out, axis.size); }));
}

absl::Status CheckMeshFields(const Plan& plan) {
  if (plan.mesh.axes.empty()) return WrongIn(plan, "mesh", "at least one axis", "no axes");
  std::set<absl::string_view> names;
  int64_t positions = 1;
  for (const program::MeshAxis& axis : plan.mesh.axes) {
    if (axis.size < 1 || axis.size > program::kMostDevices) {
      return WrongIn(plan, "mesh", absl::StrFormat("axes of a size from 1 to %d", program::kMostDevices),
                     absl::StrFormat("axis \"%s\" of size %d", axis.name, axis.size));
    }
    if (!names.insert(axis.name).second) {
      return WrongIn(plan, "mesh", "axes of different names", absl::StrFormat("axis \"%s\" twice", axis.name));
    }
    positions *= axis.size;
    if (positions > program::kMostDevices) {
      return WrongIn(plan, "mesh", absl::StrFormat("at most %d devices", program::kMostDevices), SizesOf(plan.mesh));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayerFields(const Plan& plan) {
  for (const auto& [layer, strategies] : plan.layers) {
    if (static_cast<int>(strategies.size()) != plan.mesh.axis_count()) {
      return WrongIn(plan, absl::StrCat("layers.", layer), StrategiesFor(plan.mesh), absl::StrCat(strategies.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(const Plan& plan, const NumberField& field, int64_t number) {
  if (number >= field.least && number <= field.most) return absl::OkStatus();
  return WrongIn(plan, field.name, RangeOf(field), absl::StrCat(number));
}

// REQUIRES: the mesh is checked.
absl::Status CheckDeviceOrder(const Plan& plan) {
  if (plan.device_order.empty()) return absl::OkStatus();
  std::vector<int> devices = plan.device_order;
  std::sort(devices.begin(), devices.end());
  bool are_all = static_cast<int>(devices.size()) == plan.mesh.device_count();
  for (size_t i = 0; i < devices.size(); ++i) are_all = are_all && devices[i] == static_cast<int>(i);
  if (are_all) return absl::OkStatus();
  return WrongIn(plan, "device_order", absl::StrFormat("each of %d devices once", plan.mesh.device_count()),
                 Shortened(absl::StrCat("[", absl::StrJoin(plan.device_order, ","), "]")));
}

}  // namespace

absl::Status CheckPlanFields(const Plan& plan) {
  RETURN_IF_ERROR(CheckMeshFields(plan));
  RETURN_IF_ERROR(CheckLayerFields(plan));
  RETURN_IF_ERROR(CheckNumber(plan, kBucketBytesField, plan.bucket_bytes));
  RETURN_IF_ERROR(CheckNumber(plan, kPieceBytesField, plan.piece_bytes));
  RETURN_IF_ERROR(CheckNumber(plan, kTransferPartsField, plan.transfer_parts));
  return CheckDeviceOrder(plan);
}

int64_t LargestBatch(const layers::LayerGraph& graph) {
  int64_t activations = 0;  // of one sample, as flops
  for (const layers::LayerNode& node : graph.nodes) activations += program::ElementCount(node.sample_shape);
  const int64_t flops = std::max<int64_t>(graph.ForwardFlops(1), 1);
  return std::min(kMostActivations / std::max<int64_t>(activations, 1), kMostForwardFlops / flops);
}

absl::Status CheckBatchSize(const layers::LayerGraph& graph, int64_t global_batch) {
  if (global_batch < 1) {
    return absl::FailedPreconditionError(absl::StrFormat("batch: expected at least 1, found %d", global_batch));
  }
  const int64_t largest = LargestBatch(graph);
  if (global_batch <= largest) return absl::OkStatus();
  if (largest == 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "batch: network \"%s\" is too large for any; use smaller images, a smaller width or fewer classes", graph.name));
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "batch: expected at most %d (activations or flop of more samples of network \"%s\" cannot be counted), found %d; "
      "use a smaller batch",
      largest, graph.name, global_batch));
}

absl::Status ValidatePlan(const Plan& plan, const layers::LayerGraph& graph, int64_t global_batch) {
  RETURN_IF_ERROR(CheckPlanFields(plan));
  RETURN_IF_ERROR(CheckBatchSize(graph, global_batch));
  std::vector<std::string> names;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!layers::IsInput(node.layer)) names.push_back(node.name);
  }
  for (const auto& [layer, strategies] : plan.layers) {
    if (std::find(names.begin(), names.end(), layer) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("plan \"%s\": field layers: network \"%s\" has no layer \"%s\" that can be split%s", plan.name,
                          graph.name, layer, base::DidYouMean("; ", layer, names)));
    }
  }
  return ShardGraph(graph, plan, global_batch).status();
}

}  // namespace colonnade::partition
