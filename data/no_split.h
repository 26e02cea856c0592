// A data set without images of one of its splits, told from one that is damaged or half there.
#ifndef COLONNADE_DATA_NO_SPLIT_H_
#define COLONNADE_DATA_NO_SPLIT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace colonnade::data {

// Returns NotFound, of a set that is there and has nothing of the split that was asked for.
absl::Status NoSplit(absl::string_view message);
// Whether a status is one of NoSplit's.
bool IsNoSplit(const absl::Status& status);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_NO_SPLIT_H_
