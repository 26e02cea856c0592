#include "tools/network_file.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/json_files.h"
#include "base/json_text.h"
#include "base/nearest_name.h"
#include "base/quoted.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "engine/io/mapped_file.h"
#include "engine/json_fields.h"
#include "engine/learning_rate.h"
#include "layers/traits.h"
#include "nlohmann/json.hpp"

namespace colonnade::tools {
namespace {

using engine::JsonFields;
using Json = nlohmann::ordered_json;  // written
using Read = JsonFields::Json;
using program::Initializer;

constexpr char kNetworkField[] = "colonnade_model", kNetworkKey[] = "colonnade_network";
constexpr int kDeepestNetwork = 8;
constexpr int64_t kLargestFile = int64_t{1} << 24;
constexpr int kNetworkVersion = 1;
constexpr auto kLargestCount = static_cast<double>(layers::kLargestCount);
constexpr engine::Bounds kFromZero{0}, kShares{0, 1};
// Of layers, whose bounds GraphBuilder knows.
constexpr engine::Bounds kAnyFinite{-DBL_MAX, DBL_MAX}, kFiniteFromZero{0, DBL_MAX};
constexpr const char* kInitializers[] = {"constant", "gaussian", "uniform"};

// Numbers of the recipe, each with its place.
struct RecipeNumber {
  const char* name;
  double models::ModelInfo::*value;
  engine::Bounds bounds;
};
constexpr RecipeNumber kRecipe[] = {{"learning_rate", &models::ModelInfo::learning_rate, kFromZero},
                                    {"momentum", &models::ModelInfo::momentum, kShares},
                                    {"weight_decay", &models::ModelInfo::weight_decay, kFromZero}};

Json ToJson(const Initializer& initializer) {
  return {{kInitializers[static_cast<int>(initializer.kind)], initializer.value}};
}

// Puts a field where it is not what it is by default.
struct Put {
  Json& json;
  const layers::Field& fallback;

  template <class T>
  void operator()(const T* value) const {
    if (*value != *std::get<T*>(fallback.value)) json[fallback.name] = *value;
  }
  void operator()(const Initializer* value) const {
    if (*value != *std::get<Initializer*>(fallback.value)) json[fallback.name] = ToJson(*value);
  }
  void operator()(const std::optional<Initializer>* value) const {
    if (value->has_value()) json[fallback.name] = ToJson(**value);
  }
};

// The layer of that type with its defaults; null where there is no such type.
const layers::Layer* DefaultLayer(absl::string_view type) {
  for (const layers::Layer& layer : layers::DefaultLayers()) {
    if (type == layers::TypeName(layer)) return &layer;
  }
  return nullptr;
}

// Whether inputs beside the layer before are to be expected: two images are no fault.
bool TakesSeveral(const layers::Layer& layer) {
  const program::Shape image = {4, 8, 8};
  return layers::OutputSampleShape(layer, {image, image}).ok();
}

Json ToJson(const layers::LayerGraph& graph, size_t index) {
  const layers::LayerNode& node = graph.nodes[index];
  Json json = {{"name", node.name}, {"type", layers::TypeName(node.layer)}};
  const bool reads_the_one_before = node.inputs.size() == 1 && node.inputs[0].value + 1 == static_cast<int32_t>(index);
  if (!reads_the_one_before || TakesSeveral(node.layer)) {
    for (layers::LayerId input : node.inputs) json["inputs"].push_back(graph.node(input).name);
  }
  layers::Layer layer = node.layer, fallback = *DefaultLayer(layers::TypeName(node.layer));
  const std::vector<layers::Field> fields = layers::Fields(layer), defaults = layers::Fields(fallback);
  for (size_t f = 0; f < fields.size(); ++f) std::visit(Put{json, defaults[f]}, fields[f].value);
  return json;
}

Json RecipeOf(const models::ModelInfo& info) {
  const models::ModelInfo fallback;
  Json recipe = Json::object();
  for (const RecipeNumber& number : kRecipe) {
    if (info.*number.value != fallback.*number.value) recipe[number.name] = info.*number.value;
  }
  if (info.lr_policy != fallback.lr_policy) recipe["lr_policy"] = info.lr_policy;
  if (info.shifts_images) recipe["shifts_images"] = true;
  return recipe;
}

// In one line, with a space behind commas and colons. A line break is never part of a text.
std::string InOneLine(const Json& json) {
  const std::string lines = json.dump(0, ' ', false, Json::error_handler_t::replace);
  return absl::StrReplaceAll(lines, {{"{\n", "{"}, {"[\n", "["}, {"\n}", "}"}, {"\n]", "]"}, {",\n", ", "}});
}

std::optional<Initializer> TakeInitializer(JsonFields& fields, const char* name, absl::Status& status) {
  const Read* value = fields.Find(name);
  if (value == nullptr) return std::nullopt;
  Initializer initializer;
  if (!value->is_object() || value->size() != 1) {
    fields.Fail(name, R"(one of {"constant": value}, {"gaussian": deviation} and {"uniform": bound})", *value);
    return initializer;
  }
  JsonFields object(*value, fields.Path(name), status);
  for (size_t k = 0; k < std::size(kInitializers); ++k) {
    const auto kind = static_cast<Initializer::Kind>(k);
    if (value->contains(kInitializers[k])) initializer.kind = kind;
    const bool is_constant = kind == Initializer::Kind::kConstant;
    object.Number(kInitializers[k], initializer.value, false, is_constant ? kAnyFinite : kFiniteFromZero);
  }
  object.Finish();
  return initializer;
}

// What stands at the end of a path, behind that of the object.
std::string LastOf(const std::string& path, const char* name) { return path.substr(path.rfind(name)); }

// Takes a field of a layer where it is there.
struct TakeField {
  JsonFields& fields;
  const char* name;
  absl::Status& status;
  int64_t least;

  void operator()(int64_t* value) const { fields.Count(name, *value, false, {static_cast<double>(least), kLargestCount}); }
  void operator()(double* value) const { fields.Number(name, *value, false, kAnyFinite); }
  void operator()(bool* value) const { fields.Flag(name, *value); }
  void operator()(program::Shape* value) const {
    fields.Each(name, false, [&](const Read& extent, const std::string& path) {
      const double number = extent.is_number() ? extent.get<double>() : 0;
      if (number < 1 || number > kLargestCount || number != std::floor(number)) {
        return fields.Fail(LastOf(path, name), absl::StrFormat("a whole number from 1 to %g", kLargestCount), extent);
      }
      value->push_back(static_cast<int64_t>(number));
    });
  }
  void operator()(Initializer* value) const { *value = TakeInitializer(fields, name, status).value_or(*value); }
  void operator()(std::optional<Initializer>* value) const { *value = TakeInitializer(fields, name, status); }
};

const std::string* NameOf(const Read& layer) {
  const auto name = layer.is_object() ? layer.find("name") : layer.end();
  return name != layer.end() && name->is_string() ? name->get_ptr<const std::string*>() : nullptr;
}

// Appends the layers of a file to a builder, each behind its inputs.
class LayerReader {
 public:
  LayerReader(layers::GraphBuilder& builder, absl::Status& status) : builder_(builder), status_(status) {}

  // Does nothing behind a layer that the builder has refused.
  void Append(const Read& all, size_t index, const std::string& path) {
    if (index > 0 && !last_.valid()) return;
    const std::string* const known = NameOf(all[index]);
    const std::string quoted =
        known != nullptr ? " " + base::Quoted(base::WholeCharacters(*known, layers::kLongestLayerName)) : "";
    std::string name, type;
    JsonFields fields(all[index], path + quoted, status_);
    fields.Text("name", name, true);
    fields.Word("type", Types(), type);
    if (name.size() > layers::kLongestLayerName)
      fields.Fail("name", absl::StrFormat("at most %d bytes", layers::kLongestLayerName), name.size());
    if (!status_.ok()) return;
    layers::Layer layer = *DefaultLayer(type);
    std::vector<layers::LayerId> inputs = InputsOf(fields, layer, name, all);
    for (const layers::Field& field : layers::Fields(layer)) {
      std::visit(TakeField{fields, field.name, status_, field.least}, field.value);
    }
    fields.Finish();
    if (!status_.ok()) return;
    last_ = builder_.Append(name, std::move(layer), std::move(inputs));
    ids_.emplace(std::move(name), last_);
  }

 private:
  static const std::vector<std::string>& Types() {
    static const auto& types = *new std::vector<std::string>([] {
      std::vector<std::string> names;
      for (const layers::Layer& layer : layers::DefaultLayers()) names.emplace_back(layers::TypeName(layer));
      return names;
    }());
    return types;
  }

  // Returns the layers that "inputs" names, else the layer before.
  std::vector<layers::LayerId> InputsOf(JsonFields& fields, const layers::Layer& layer, const std::string& name,
                                        const Read& all) {
    std::vector<layers::LayerId> inputs;
    if (fields.Find("inputs") == nullptr) {
      if (TakesSeveral(layer)) fields.Need("inputs");
      if (last_.valid() && !layers::IsInput(layer)) inputs.push_back(last_);
      return inputs;
    }
    fields.Each("inputs", true, [&](const Read& input, const std::string& path) {
      const auto found = input.is_string() ? ids_.find(input.get<std::string>()) : ids_.end();
      if (found != ids_.end()) return inputs.push_back(found->second);
      fields.Fail(LastOf(path, "inputs"), absl::StrCat("the name of a layer before this one", Hint(input, name, all)),
                  input);
    });
    return inputs;
  }

  // What to do about an input that is no layer before its reader.
  std::string Hint(const Read& input, const std::string& reader, const Read& all) const {
    if (!input.is_string() || input.get<std::string>().size() > layers::kLongestLayerName) return "";
    const auto name = input.get<std::string>();
    if (name == reader) return " (that is this layer itself)";
    std::vector<std::string> before;
    for (const auto& [other, id] : ids_) before.push_back(other);
    const bool comes_later = std::any_of(all.begin(), all.end(), [&](const Read& layer) {
      const std::string* const other = NameOf(layer);
      return other != nullptr && *other == name;
    });
    if (comes_later) return " (that one comes later)";
    const std::string nearest = base::NearestName(name, before);
    return nearest.empty() ? "" : absl::StrFormat(" (did you mean \"%s\"?)", nearest);
  }

  layers::GraphBuilder& builder_;
  absl::Status& status_;
  layers::LayerId last_;
  std::map<std::string, layers::LayerId> ids_;
};

void CheckVersion(JsonFields& fields, absl::Status& status) {
  const Read* version = fields.Find(kNetworkField);
  if (version != nullptr && *version != kNetworkVersion) {
    fields.Fail(kNetworkField, absl::StrCat("version ", kNetworkVersion), *version);
  }
  if (version != nullptr || !status.ok()) return;
  status = absl::InvalidArgumentError(
      absl::StrFormat("%s: expected %d, the version of such files, found none", kNetworkField, kNetworkVersion));
}

void ReadRecipe(JsonFields& fields, models::ModelInfo& info, absl::Status& status) {
  const Read* recipe = fields.Find("training");
  if (recipe == nullptr) return;
  JsonFields object(*recipe, "training", status);
  for (const RecipeNumber& number : kRecipe) object.Number(number.name, info.*number.value, false, number.bounds);
  object.Text("lr_policy", info.lr_policy);
  if (!engine::ParseLearningRatePolicy(info.lr_policy).has_value()) {
    object.Fail("lr_policy", engine::kLearningRatePolicies, *object.Find("lr_policy"));
  }
  object.Flag("shifts_images", info.shifts_images);
  object.Finish();
}

// The text under kNetworkKey of a file of weights.
absl::StatusOr<std::string> StatedBy(const std::string& weights) {
  ASSIGN_OR_RETURN(const engine::MappedFile file, engine::MappedFile::Open(weights));
  const absl::StatusOr<engine::Metadata> metadata = engine::ViewMetadata(file.bytes());
  if (!metadata.ok()) return engine::WithContext(metadata.status(), weights);
  const auto stated = metadata->find(kNetworkKey);
  if (stated != metadata->end()) return stated->second;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: expected weights that state their network, under %s, found none; give a network of the zoo or a network file",
      weights, kNetworkKey));
}

}  // namespace

std::string NetworkToJson(const Network& network) {
  Json head = {{kNetworkField, kNetworkVersion}, {"name", network.graph.name}};
  if (!network.info.description.empty()) head["description"] = network.info.description;
  if (Json recipe = RecipeOf(network.info); !recipe.empty()) head["training"] = std::move(recipe);
  std::string text = "{\n";
  for (const auto& [name, value] : head.items()) absl::StrAppend(&text, " \"", name, "\": ", InOneLine(value), ",\n");
  std::vector<std::string> lines;
  for (size_t i = 0; i < network.graph.nodes.size(); ++i) lines.push_back(InOneLine(ToJson(network.graph, i)));
  absl::StrAppend(&text, " \"layers\": [\n  ", absl::StrJoin(lines, ",\n  "), "\n ]\n}\n");
  return text;
}

absl::StatusOr<Network> NetworkFromJson(absl::string_view text) {
  RETURN_IF_ERROR(base::CheckKindOfJson(kNetworkField, text));
  ASSIGN_OR_RETURN(Read json, base::ParseJson<Read>(text, kDeepestNetwork));
  absl::Status status;
  Network network;
  JsonFields fields(json, "", status);
  CheckVersion(fields, status);
  fields.Text("name", network.info.name, true);
  fields.Text("description", network.info.description);
  ReadRecipe(fields, network.info, status);
  layers::GraphBuilder builder(network.info.name);
  LayerReader reader(builder, status);
  size_t count = 0;
  fields.Each("layers", false, [&](const Read&, const std::string& path) {
    if (count == layers::kMostLayers)
      return fields.Fail("layers", absl::StrFormat("at most %d", layers::kMostLayers), json["layers"].size());
    reader.Append(json["layers"], count++, path);
  });
  fields.Finish();
  fields.Need("layers");
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(network.graph, std::move(builder).Build());
  const program::Shape& image = network.graph.nodes[0].sample_shape;
  network.info.input_channels = image[0];
  network.info.input_size = image.back();
  network.info.classes = network.graph.classes();
  return network;
}

engine::Metadata NetworkMetadata(const Network& network) { return {{kNetworkKey, NetworkToJson(network)}}; }

bool StatesNetwork(const engine::Metadata& metadata) { return metadata.contains(kNetworkKey); }

bool IsNetworkFile(const std::string& model) {
  if (model.empty() || models::FindModel(model).ok()) return false;
  std::error_code ignored;
  return model.find_first_of("./") != std::string::npos || std::filesystem::is_regular_file(model, ignored);
}

bool IsWeightsFile(const std::string& model) {
  if (!IsNetworkFile(model)) return false;
  const absl::StatusOr<engine::MappedFile> file = engine::MappedFile::Open(model);
  return file.ok() && engine::LooksLikeSafetensors(file->bytes());
}

absl::StatusOr<const models::ModelInfo*> FindInZoo(const std::string& model) {
  absl::StatusOr<const models::ModelInfo*> info = models::FindModel(model);
  if (info.ok()) return info;
  return absl::Status(info.status().code(), absl::StrCat(info.status().message(), ", or a network file"));
}

absl::StatusOr<Network> OpenNetwork(const std::string& model, const models::ModelOptions& options) {
  if (!IsNetworkFile(model)) {
    ASSIGN_OR_RETURN(const models::ModelInfo* info, FindInZoo(model));
    ASSIGN_OR_RETURN(layers::LayerGraph graph, models::BuildModel(model, options));
    return Network{*info, std::move(graph)};
  }
  const bool is_weights = IsWeightsFile(model);
  ASSIGN_OR_RETURN(const std::string text, is_weights ? StatedBy(model) : engine::ReadFile(model, kLargestFile));
  absl::StatusOr<Network> network = NetworkFromJson(text);
  if (network.ok()) return network;
  return engine::WithContext(network.status(), is_weights ? absl::StrCat(model, ": ", kNetworkKey) : model);
}

}  // namespace colonnade::tools
