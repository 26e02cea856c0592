#include "partition/plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "layers/traits.h"
#include "nlohmann/json.hpp"
#include "partition/shardings.h"
#include "program/json_text.h"
#include "program/nearest_name.h"
#include "program/status_macros.h"

namespace colonnade::partition {
namespace {

using Json = nlohmann::ordered_json;
using layers::Strategy;

constexpr int kVersion = 1;
constexpr int kDeepest = 8;
constexpr int64_t kMostActivations = int64_t{1} << 48;   // elements; Verify lets no buffer have more
constexpr int64_t kMostForwardFlops = int64_t{1} << 60;  // backward takes twice as many

absl::Status Wrong(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrFormat("plan: field %s: expected %s, found %s", field, expected, found));
}

std::string Found(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// A strategy's name that is none, with the one that was probably meant.
std::string Suggested(const Json& name, const std::vector<std::string>& known) {
  if (!name.is_string()) return Found(name);
  return absl::StrCat(Found(name), program::DidYouMean("; ", name.get<std::string>(), known));
}

absl::Status ParseMesh(const Json& value, Mesh& mesh) {
  constexpr char kExpected[] = "a list of {\"name\": text, \"size\": whole number from 1}";
  if (!value.is_array() || value.empty()) return Wrong("mesh", kExpected, Found(value));
  std::set<std::string> names;
  int64_t positions = 1;
  for (const Json& axis : value) {
    if (!axis.is_object() || axis.size() != 2 || !axis.contains("name") || !axis.contains("size") ||
        !axis["name"].is_string() || !axis["size"].is_number_integer()) {
      return Wrong("mesh", kExpected, Found(axis));
    }
    program::MeshAxis parsed{axis["name"].get<std::string>(), axis["size"].get<int64_t>()};
    if (parsed.size < 1 || parsed.size > program::kMostDevices) {
      return Wrong("mesh", absl::StrFormat("a size from 1 to %d", program::kMostDevices), Found(axis));
    }
    if (!names.insert(parsed.name).second) return Wrong("mesh", "axes of different names", Found(axis));
    mesh.axes.push_back(std::move(parsed));
    positions *= mesh.axes.back().size;
    if (positions > program::kMostDevices) {
      return Wrong("mesh", absl::StrFormat("at most %d devices", program::kMostDevices), Found(value));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseLayers(const Json& value, const Mesh& mesh, std::map<std::string, std::vector<Strategy>>& parsed) {
  if (!value.is_object()) return Wrong("layers", "an object from layer name to a list of strategies", Found(value));
  for (const auto& [layer, list] : value.items()) {
    const std::string field = absl::StrCat("layers.", layer);
    if (!list.is_array() || static_cast<int>(list.size()) != mesh.axis_count()) {
      return Wrong(field, absl::StrFormat("a list of %d strategies, one for each axis", mesh.axis_count()), Found(list));
    }
    for (const Json& name : list) {
      std::optional<Strategy> strategy = name.is_string() ? layers::StrategyFromName(name.get<std::string>()) : std::nullopt;
      if (!strategy) {
        return Wrong(field, "replicate, batch, column, group or row",
                     Suggested(name, {"replicate", "batch", "column", "group", "row"}));
      }
      parsed[layer].push_back(*strategy);
    }
  }
  return absl::OkStatus();
}

absl::Status ParseReduction(const Json& value, Reduction& reduction) {
  const std::optional<Reduction> parsed = value.is_string() ? ReductionFromName(value.get<std::string>()) : std::nullopt;
  if (!parsed) {
    return Wrong("reduction", "all-reduce, sharded or master", Suggested(value, {"all-reduce", "sharded", "master"}));
  }
  reduction = *parsed;
  return absl::OkStatus();
}

absl::Status ParseDeviceOrder(const Json& value, const Mesh& mesh, std::vector<int>& order) {
  bool numbers = value.is_array();
  for (const Json& device : value)
    numbers = numbers && device.is_number_integer() && device >= 0 && device < mesh.device_count();
  if (!numbers) {
    return Wrong("device_order", absl::StrFormat("a list of devices from 0 to %d", mesh.device_count() - 1), Found(value));
  }
  order = value.get<std::vector<int>>();
  return absl::OkStatus();
}

absl::Status CheckFields(const Json& root) {
  static const auto& fields =
      *new std::vector<std::string>{"colonnade_plan", "name",        "mesh",           "layers",       "reduction",
                                    "bucket_bytes",   "piece_bytes", "transfer_parts", "device_order", "overlap"};
  for (const auto& [field, value] : root.items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    return Wrong(field, absl::StrCat("one of ", absl::StrJoin(fields, ", ")),
                 absl::StrCat("an unknown field", program::DidYouMean("; ", field, fields)));
  }
  for (const char* needed : {"colonnade_plan", "mesh", "layers"}) {
    if (!root.contains(needed)) return Wrong(needed, "a value", "nothing");
  }
  if (root["colonnade_plan"] != kVersion) {
    return Wrong("colonnade_plan", absl::StrCat("version ", kVersion), Found(root["colonnade_plan"]));
  }
  return absl::OkStatus();
}

absl::Status ParseBytes(const Json& root, const char* field, int64_t least, int64_t& bytes) {
  if (!root.contains(field)) return absl::OkStatus();
  const Json& value = root[field];
  if (!value.is_number_integer() || value < least || value > kMostPlanBytes) {
    return Wrong(field, absl::StrCat("a whole number from ", least, " to 2^40"), Found(value));
  }
  bytes = value.get<int64_t>();
  return absl::OkStatus();
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
  RETURN_IF_ERROR(ParseBytes(root, "bucket_bytes", 1, plan.bucket_bytes));
  RETURN_IF_ERROR(ParseBytes(root, "piece_bytes", kLeastPieceBytes, plan.piece_bytes));
  if (root.contains("transfer_parts")) {
    const Json& parts = root["transfer_parts"];
    if (!parts.is_number_integer() || parts < 1 || parts > kMostTransferParts) {
      return Wrong("transfer_parts", absl::StrCat("a whole number from 1 to ", kMostTransferParts), Found(parts));
    }
    plan.transfer_parts = parts.get<int>();
  }
  if (root.contains("reduction")) {
    RETURN_IF_ERROR(ParseReduction(root["reduction"], plan.reduction));
  }
  if (root.contains("device_order")) return ParseDeviceOrder(root["device_order"], plan.mesh, plan.device_order);
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

namespace {
constexpr Reduction kReductions[] = {Reduction::kAllReduce, Reduction::kSharded, Reduction::kMaster};
}  // namespace

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
  if (plan.transfer_parts > 1) root["transfer_parts"] = plan.transfer_parts;
  if (!plan.device_order.empty()) root["device_order"] = plan.device_order;
  root["layers"] = Json::object();
  for (const auto& [layer, strategies] : plan.layers) {
    root["layers"][layer] = Json::array();
    for (Strategy s : strategies) root["layers"][layer].push_back(layers::Name(s));
  }
  return root.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Plan> PlanFromJson(absl::string_view json) {
  absl::StatusOr<Json> parsed = program::ParseJson<Json>(json, kDeepest);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("plan: ", parsed.status().message()));
  const Json& root = *parsed;
  if (!root.is_object()) return absl::InvalidArgumentError("plan: expected one JSON object, found " + Found(root));
  Plan plan;
  RETURN_IF_ERROR(CheckFields(root));
  RETURN_IF_ERROR(ParseMesh(root["mesh"], plan.mesh));
  RETURN_IF_ERROR(ParseLayers(root["layers"], plan.mesh, plan.layers));
  RETURN_IF_ERROR(ParseOptional(root, plan));
  return plan;
}

int64_t LargestBatch(const layers::LayerGraph& graph) {
  int64_t activations = 0;  // of one sample, as flops
  for (const layers::LayerNode& node : graph.nodes) activations += program::ElementCount(node.sample_shape);
  const int64_t flops = std::max<int64_t>(graph.ForwardFlops(1), 1);
  return std::min(kMostActivations / std::max<int64_t>(activations, 1), kMostForwardFlops / flops);
}

absl::Status CheckBatch(const layers::LayerGraph& graph, int64_t global_batch) {
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
  RETURN_IF_ERROR(CheckBatch(graph, global_batch));
  if (plan.mesh.axes.empty())
    return absl::InvalidArgumentError(absl::StrFormat("plan \"%s\": the mesh has no axes", plan.name));
  if (plan.transfer_parts < 1 || plan.transfer_parts > kMostTransferParts) {
    return absl::InvalidArgumentError(
        absl::StrFormat("plan \"%s\": field transfer_parts: expected a whole number from 1 to %d, found %d", plan.name,
                        kMostTransferParts, plan.transfer_parts));
  }
  std::set<int> devices(plan.device_order.begin(), plan.device_order.end());
  const int count = plan.mesh.device_count();
  if (!devices.empty() &&
      (static_cast<int>(plan.device_order.size()) != count || static_cast<int>(devices.size()) != count ||
       *devices.begin() != 0 || *devices.rbegin() != count - 1)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("plan \"%s\": field device_order: expected each of %d devices once, found [%s]", plan.name, count,
                        absl::StrJoin(plan.device_order, ",")));
  }
  std::vector<std::string> names;
  for (const layers::LayerNode& node : graph.nodes) {
    if (!layers::TraitsOf(node.layer).is_input) names.push_back(node.name);
  }
  for (const auto& [layer, strategies] : plan.layers) {
    if (std::find(names.begin(), names.end(), layer) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("plan \"%s\": field layers: network \"%s\" has no layer \"%s\" that can be split%s", plan.name,
                          graph.name, layer, program::DidYouMean("; ", layer, names)));
    }
  }
  return ShardGraph(graph, plan, global_batch).status();
}

}  // namespace colonnade::partition
