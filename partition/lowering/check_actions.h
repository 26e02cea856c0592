// What holds between lowering passes, checked after each of them.
#ifndef COLONNADE_PARTITION_LOWERING_CHECK_ACTIONS_H_
#define COLONNADE_PARTITION_LOWERING_CHECK_ACTIONS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "partition/lowering/lowering.h"

namespace colonnade::partition {

// Returns Internal, naming `pass`, unless
//   - every value that an action reads is loaded by the host or made by an earlier action, and is made once;
//   - nothing reads a parameter after its update;
//   - of each bucket the gradients are checked, reduced part by part, measured, used for the update, gathered and averaged,
//     in this order and each at most once; what is checked is updated.
absl::Status CheckActions(const Lowering& lowering, absl::string_view pass);

}  // namespace colonnade::partition

#endif  // COLONNADE_PARTITION_LOWERING_CHECK_ACTIONS_H_
