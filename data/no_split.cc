#include "data/no_split.h"

#include "absl/strings/cord.h"

namespace colonnade::data {
namespace {

constexpr char kMark[] = "colonnade/no-split";

}  // namespace

absl::Status NoSplit(absl::string_view message) {
  absl::Status status = absl::NotFoundError(message);
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsNoSplit(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace colonnade::data
