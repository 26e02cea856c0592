#include "partition/plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "partition/plan_fields.h"

namespace colonnade::partition {

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

std::string RangeOf(const NumberField& field) {
  const std::string most = field.most == kMostPlanBytes ? "2^40" : absl::StrCat(field.most);
  return absl::StrFormat("a whole number from %d to %s", field.least, most);
}

std::string StrategiesFor(const Mesh& mesh) {
  return absl::StrFormat("a list of %s, one for each axis", base::Counted(mesh.axis_count(), "strategy"));
}

std::string Shortened(std::string text) {
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

absl::Status WrongField(absl::string_view plan_name, absl::string_view field, absl::string_view expected,
                        absl::string_view found) {
  const std::string plan = plan_name.empty() ? "plan" : absl::StrFormat("plan \"%s\"", plan_name);
  return absl::InvalidArgumentError(absl::StrFormat("%s: field %s: expected %s, found %s", plan, field, expected, found));
}

namespace {

std::string SizesOf(const Mesh& mesh) {
  return Shortened(absl::StrJoin(mesh.axes, " x ",
                                 [](std::string* out, const program::MeshAxis& axis) { absl::StrAppend(out, axis.size); }));
}

absl::Status CheckMeshFields(const Plan& plan) {
  if (plan.mesh.axes.empty()) return WrongField(plan.name, "mesh", "at least one axis", "no axes");
  std::set<absl::string_view> names;
  for (const program::MeshAxis& axis : plan.mesh.axes) {
    if (!program::DeviceCount({axis}).has_value()) {
      return WrongField(plan.name, "mesh", absl::StrFormat("axes of a size from 1 to %d", program::kMostDevices),
                        absl::StrFormat("axis \"%s\" of size %d", axis.name, axis.size));
    }
    if (!names.insert(axis.name).second) {
      return WrongField(plan.name, "mesh", "axes of different names", absl::StrFormat("axis \"%s\" twice", axis.name));
    }
  }
  if (!program::DeviceCount(plan.mesh.axes).has_value()) {
    return WrongField(plan.name, "mesh", absl::StrFormat("at most %d devices", program::kMostDevices), SizesOf(plan.mesh));
  }
  return absl::OkStatus();
}

absl::Status CheckLayerFields(const Plan& plan) {
  for (const auto& [layer, strategies] : plan.layers) {
    if (static_cast<int>(strategies.size()) != plan.mesh.axis_count()) {
      return WrongField(plan.name, absl::StrCat("layers.", layer), StrategiesFor(plan.mesh),
                        absl::StrCat(strategies.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(const Plan& plan, const NumberField& field, int64_t number) {
  if (number >= field.least && number <= field.most) return absl::OkStatus();
  return WrongField(plan.name, field.name, RangeOf(field), absl::StrCat(number));
}

// REQUIRES: the mesh is checked.
absl::Status CheckDeviceOrder(const Plan& plan) {
  if (plan.device_order.empty()) return absl::OkStatus();
  std::vector<int> devices = plan.device_order;
  std::sort(devices.begin(), devices.end());
  bool are_all = static_cast<int>(devices.size()) == plan.mesh.device_count();
  for (size_t i = 0; i < devices.size(); ++i) are_all = are_all && devices[i] == static_cast<int>(i);
  if (are_all) return absl::OkStatus();
  return WrongField(plan.name, "device_order",
                    absl::StrFormat("each of %s once", base::Counted(plan.mesh.device_count(), "device")),
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

}  // namespace colonnade::partition
