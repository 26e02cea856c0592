#include "engine/io/weights.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_text.h"
#include "base/quoted.h"
#include "base/status_macros.h"
#include "engine/error_context.h"
#include "engine/io/file.h"
#include "nlohmann/json.hpp"

namespace colonnade::engine {
namespace {

using IndexJson = nlohmann::json;

constexpr char kIndexEnding[] = ".index.json", kWeightMap[] = "weight_map";
constexpr int64_t kMostIndexBytes = int64_t{1} << 24;  // some 100,000 tensors
constexpr int kDeepestIndex = 8;

// One that leads nowhere else.
bool IsFileBeside(const std::string& name) {
  return !name.empty() && name != "." && !absl::StrContains(name, "..") && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Files of other programs may be damaged: a negative variance makes NaN of its channel, or takes it for the largest.
absl::Status CheckVariances(absl::Span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    if (!absl::EndsWith(tensor.name, ".running_var")) continue;
    const std::vector<double> variances = AsDoubles(tensor).values;
    for (size_t i = 0; i < variances.size(); ++i) {
      if (!(variances[i] < 0)) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "tensor \"%s\": expected variances of at least 0, found %g as element %d", tensor.name, variances[i], i));
    }
  }
  return absl::OkStatus();
}

absl::Status AddFile(const std::string& path, MappedWeights& weights) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<TensorFile> view = ViewFile(file.bytes(), Halves::kBecomeFloats);
  if (!view.ok()) return WithContext(view.status(), path);
  RETURN_IF_ERROR(WithContext(CheckFinite(view->tensors), path));
  RETURN_IF_ERROR(WithContext(CheckVariances(view->tensors), path));
  weights.files.push_back(std::move(file));
  for (TensorView& tensor : view->tensors) weights.tensors.push_back(std::move(tensor));
  for (auto& floats : view->widened) weights.widened.push_back(std::move(floats));
  weights.metadata.merge(view->metadata);
  return absl::OkStatus();
}

// Checks that the tensors of `weights` from the one numbered `first` on, all of one file, are those that the index names.
absl::Status CheckShard(const MappedWeights& weights, size_t first, std::set<std::string> named) {
  for (size_t i = first; i < weights.tensors.size(); ++i) {
    if (named.erase(weights.tensors[i].name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected only the tensors that the index names for it, found %s besides; "
                        "use the index that was written with it",
                        base::Quoted(weights.tensors[i].name)));
  }
  for (const std::string& name : named) {
    if (IsBatchCounter(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("expected tensor %s, which the index names for it, found none", base::Quoted(name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<MappedWeights> MapShards(const std::string& index) {
  ASSIGN_OR_RETURN(std::string json, ReadFile(index, kMostIndexBytes));
  ASSIGN_OR_RETURN(WeightMap files, WeightMapFromJson(json));
  std::map<std::string, std::set<std::string>> names;  // by file
  for (const auto& [name, file] : files) names[file].insert(name);
  MappedWeights weights;
  for (const auto& [file, named] : names) {
    const std::string path = (std::filesystem::path(index).parent_path() / file).string();
    const size_t first = weights.tensors.size();
    RETURN_IF_ERROR(AddFile(path, weights));
    RETURN_IF_ERROR(WithContext(CheckShard(weights, first, named), path));
  }
  return weights;
}

}  // namespace

absl::StatusOr<WeightMap> WeightMapFromJson(absl::string_view text) {
  ASSIGN_OR_RETURN(IndexJson json, base::ParseJson<IndexJson>(text, kDeepestIndex));
  if (!json.is_object() || !json.contains(kWeightMap) || !json[kWeightMap].is_object()) {
    return absl::InvalidArgumentError("expected {\"weight_map\": {tensor: file}}, found no such object");
  }
  WeightMap map;
  for (const auto& [name, file] : json[kWeightMap].items()) {
    if (!file.is_string() || !IsFileBeside(file)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tensor %s: expected the name of a file beside the index, found %s", base::Quoted(name),
          file.is_string() ? base::Quoted(file.get_ref<const std::string&>()) : absl::StrCat("a JSON ", file.type_name())));
    }
    map.emplace(name, file);
  }
  return map;
}

absl::StatusOr<MappedWeights> MapWeights(const std::string& path) {
  if (absl::EndsWith(path, kIndexEnding)) {
    absl::StatusOr<MappedWeights> weights = MapShards(path);
    if (!weights.ok()) return WithContext(weights.status(), path);
    return weights;
  }
  MappedWeights weights;
  RETURN_IF_ERROR(AddFile(path, weights));
  return weights;
}

}  // namespace colonnade::engine
