// Counts samples that could not be used: how many, of which classes, and why the first of them could not.
#ifndef COLONNADE_DATA_BAD_SAMPLES_H_
#define COLONNADE_DATA_BAD_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace colonnade::data {

// The bad samples of one epoch, or of a set that is read once.
struct BadSamples {
  static constexpr int64_t kReadOnce = -1;  // in an epoch's place
  int64_t epoch = 0;
  int64_t count = 0;
  std::vector<int64_t> of_class;  // by label
  std::string first;              // the message of the first in the order of the epoch

  void Add(int32_t label, const absl::Status& why);
};

// Returns whether more than 1 % of a set of `size` samples are bad: it is then not the set that was meant.
bool IsTooManyBad(int64_t bad, int64_t size);
absl::Status TooManyBad(const BadSamples& bad, int64_t size);

// Returns "epoch 3: 2 of 1437 samples could not be used and were skipped: 1 of class cat, …; the first: a.jpg: …", without
// the epoch where the set is read once.
std::string ToString(const BadSamples& bad, int64_t size, const std::vector<std::string>& class_names);

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_BAD_SAMPLES_H_
