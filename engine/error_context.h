// Context of errors: where a Status came from, said before its message.
#ifndef COLONNADE_ENGINE_ERROR_CONTEXT_H_
#define COLONNADE_ENGINE_ERROR_CONTEXT_H_

#include "absl/status/status.h"
#include "base/with_context.h"
#include "program/task.h"

namespace colonnade::engine {

using base::WithContext;

// Returns `status` with "task 17 (conv_forward of conv1, device 0): " in front of its message; OK stays OK.
absl::Status InTask(const absl::Status& status, const program::Task& task);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_ERROR_CONTEXT_H_
