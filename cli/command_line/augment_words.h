// The words of --augment.
#ifndef COLONNADE_CLI_COMMAND_LINE_AUGMENT_WORDS_H_
#define COLONNADE_CLI_COMMAND_LINE_AUGMENT_WORDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "data/augment.h"

namespace colonnade::cli {

// Checks the value of --augment: "standard", "none", or some of these with commas between:
//   pad:N            the image at the network's size, N pixels of value 0 around it, of which a part of that size is cut
//   resized[:A]      a random part of A (default 0.08) to all of the area, of random shape, resampled
//   scaled:N[-M]     the shorter side N (to M) pixels, a random part cut
//   mirror, jitter:X, lighting:X, cutout:N
// FailedPrecondition names the part that is wrong.
absl::Status CheckAugment(const std::string& augment);

// Makes `options` do what the words say, without the flag's name in an error. REQUIRES: `augment` is neither "standard" nor
// "none".
absl::Status ApplyAugment(absl::string_view augment, data::AugmentOptions& options);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_COMMAND_LINE_AUGMENT_WORDS_H_
