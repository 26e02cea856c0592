#include "layers/sharding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace colonnade::layers {

const char* Name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kReplicate:
      return "replicate";
    case Strategy::kBatch:
      return "batch";
    case Strategy::kColumn:
      return "column";
    case Strategy::kGroup:
      return "group";
    case Strategy::kRow:
      return "row";
  }
  return "";
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (Strategy s : kStrategies) names.emplace_back(Name(s));
  return names;
}

std::optional<Strategy> StrategyFromName(const std::string& name) {
  for (Strategy s : kStrategies) {
    if (name == Name(s)) return s;
  }
  return std::nullopt;
}

Placement Placement::SplitSections(std::vector<int64_t> sections, int dim) {
  Placement split = Split(dim);
  if (sections.size() > 1) split.sections = std::move(sections);
  return split;
}

std::string ToString(const Placement& placement) {
  const std::string groups = placement.groups > 1 ? absl::StrCat("/", placement.groups) : "";
  const std::string sections = placement.sections.empty() ? "" : absl::StrCat(": ", absl::StrJoin(placement.sections, "+"));
  switch (placement.kind) {
    case Placement::Kind::kReplicated:
      return absl::StrCat("replicated", groups);
    case Placement::Kind::kSplit:
      return absl::StrCat("split(", placement.dim, sections, ")");
    case Placement::Kind::kPartial:
      return absl::StrCat("partial", groups);
  }
  return "";
}

}  // namespace colonnade::layers
