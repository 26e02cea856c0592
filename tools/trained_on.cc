#include "tools/trained_on.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/counted.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/with_context.h"
#include "data/class_names.h"
#include "engine/json_fields.h"
#include "nlohmann/json.hpp"

namespace colonnade::tools {
namespace {

using StatedJson = engine::JsonFields::Json;

constexpr char kKey[] = "colonnade_trained_on";
constexpr const char* kTestViews[] = {"whole", "middle"};  // by TestView
constexpr int kDeepestStated = 16;                         // later versions may state more
// As much as --classes and a network file take.
constexpr size_t kMostClassesStated = 1'000'000;
constexpr int64_t kMostExtent = 1'000'000'000;
constexpr engine::Bounds kMeans{.least = -data::kLargestMean, .most = data::kLargestMean},
    kDeviations{.least = data::kLeastDeviation, .most = data::kLargestDeviation};

void ReadNames(engine::JsonFields& fields, std::vector<std::string>& names) {
  fields.Each("class_names", /*needed=*/true, [&](const StatedJson& name, const std::string& place) {
    if (!name.is_string()) return fields.Fail(place, "a text", name);
    names.push_back(name);
  });
}

void ReadNumbers(engine::JsonFields& fields, const char* field, engine::Bounds bounds, std::vector<double>& numbers) {
  fields.Each(field, /*needed=*/true, [&](const StatedJson& number, const std::string& place) {
    const double value = number.is_number() ? number.get<double>() : std::nan("");
    if (!(value >= bounds.least && value <= bounds.most)) {
      return fields.Fail(place, absl::StrFormat("a number from %g to %g", bounds.least, bounds.most), number);
    }
    numbers.push_back(value);
  });
}

void ReadImage(engine::JsonFields& fields, program::Shape& image) {
  fields.Each("image", /*needed=*/true, [&](const StatedJson& extent, const std::string& place) {
    const int64_t value = extent.is_number_integer() ? extent.get<int64_t>() : 0;
    if (value < 1 || value > kMostExtent) {
      return fields.Fail(place, absl::StrFormat("a whole number from 1 to %d", kMostExtent), extent);
    }
    image.push_back(value);
  });
}

absl::Status CheckCounts(const TrainedOn& trained_on) {
  const size_t names = trained_on.class_names.size();
  if (names == 0 || names > kMostClassesStated) {
    return absl::InvalidArgumentError(absl::StrFormat("class_names: expected 1 to %d, found %d", kMostClassesStated, names));
  }
  if (trained_on.image.size() != 3) {
    return absl::InvalidArgumentError(absl::StrFormat("image: expected channels, rows and columns, found %s",
                                                      base::Counted(trained_on.image.size(), "number")));
  }
  if (2 * trained_on.pad >= std::min(trained_on.image[1], trained_on.image[2])) {
    return absl::InvalidArgumentError(absl::StrFormat("pad: expected less than half of an image of %d x %d, found %d",
                                                      trained_on.image[1], trained_on.image[2], trained_on.pad));
  }
  const auto channels = static_cast<size_t>(trained_on.image[0]);
  const size_t means = trained_on.moments.mean.size(), deviations = trained_on.moments.std.size();
  if (means == channels && deviations == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("mean and std: expected one number for each of %s, found %d and %d",
                                                    base::Counted(channels, "channel"), means, deviations));
}

absl::StatusOr<TrainedOn> FromJson(const std::string& text) {
  ASSIGN_OR_RETURN(const StatedJson json, base::ParseJson<StatedJson>(text, kDeepestStated));
  TrainedOn trained_on;
  absl::Status status;
  engine::JsonFields fields(json, "", status);
  ReadImage(fields, trained_on.image);
  ReadNames(fields, trained_on.class_names);
  ReadNumbers(fields, "mean", kMeans, trained_on.moments.mean);
  ReadNumbers(fields, "std", kDeviations, trained_on.moments.std);
  fields.Count("pad", trained_on.pad, /*needed=*/false, {0, static_cast<double>(kMostExtent)});
  if (fields.Find("view") != nullptr) {
    std::string view;
    fields.Word("view", {std::begin(kTestViews), std::end(kTestViews)}, view);
    trained_on.view = view == kTestViews[0] ? TestView::kWhole : TestView::kMiddle;
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(CheckCounts(trained_on));
  return trained_on;
}

}  // namespace

engine::Metadata ToMetadata(const TrainedOn& trained_on) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const std::string& name : trained_on.class_names)
    names.push_back(base::IsUtf8(name) ? name : absl::StrCat(names.size()));
  nlohmann::ordered_json json = {{"image", std::vector<int64_t>(trained_on.image.begin(), trained_on.image.end())},
                                 {"class_names", names},
                                 {"mean", trained_on.moments.mean},
                                 {"std", trained_on.moments.std}};
  json["pad"] = trained_on.pad;
  if (trained_on.view.has_value()) json["view"] = kTestViews[static_cast<int>(*trained_on.view)];
  return {{kKey, json.dump()}};
}

absl::StatusOr<std::optional<TrainedOn>> TrainedOnFromMetadata(const engine::Metadata& metadata) {
  const auto stated = metadata.find(kKey);
  if (stated == metadata.end()) return std::nullopt;
  absl::StatusOr<TrainedOn> trained_on = FromJson(stated->second);
  if (!trained_on.ok()) return base::WithContext(trained_on.status(), kKey);
  return *std::move(trained_on);
}

std::optional<size_t> FirstOtherClass(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const absl::flat_hash_set<absl::string_view> of_a(a.begin(), a.end()), of_b(b.begin(), b.end());
  for (size_t label = 0; label < std::min(a.size(), b.size()); ++label) {
    if (a[label] == b[label]) continue;
    const bool are_names = !data::IsNoName(label, a[label]) && !data::IsNoName(label, b[label]);
    if (are_names || of_a.contains(b[label]) || of_b.contains(a[label])) return label;
  }
  return std::nullopt;
}

}  // namespace colonnade::tools
