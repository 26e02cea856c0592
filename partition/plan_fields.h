// The fields of a plan: the ranges of its numbers, and how messages name what is wrong. Internal to partition/.
#ifndef COLONNADE_PARTITION_PLAN_FIELDS_H_
#define COLONNADE_PARTITION_PLAN_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "partition/plan.h"

namespace colonnade::partition {

// A field that is a whole number, with its range.
struct NumberField {
  const char* name;
  int64_t least, most;
};
inline constexpr NumberField kBucketBytesField = {"bucket_bytes", 1, kMostPlanBytes};
inline constexpr NumberField kPieceBytesField = {"piece_bytes", kLeastPieceBytes, kMostPlanBytes};
inline constexpr NumberField kTransferPartsField = {"transfer_parts", 1, kMostTransferParts};

// "a whole number from 1 to 64".
std::string RangeOf(const NumberField& field);

// "a list of 2 strategies, one for each axis".
std::string StrategiesFor(const Mesh& mesh);

// Returns the beginning of a text that is long.
std::string Shortened(std::string text);

// InvalidArgument: `plan "hybrid": field mesh: expected …, found …`; the name is left out where there is none.
absl::Status WrongField(absl::string_view plan_name, absl::string_view field, absl::string_view expected,
                        absl::string_view found);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_PLAN_FIELDS_H_
