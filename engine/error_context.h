// Context of errors: where a Status came from, said before its message.
#ifndef COLONNADE_ENGINE_ERROR_CONTEXT_H_
#define COLONNADE_ENGINE_ERROR_CONTEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "program/task.h"

namespace colonnade::engine {

// `status` with `context` before its message; OK stays OK.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

// A name from a file in quotes, fit to be printed.
std::string Quoted(absl::string_view name);

// `status` with "task 17 (conv_forward of conv1) on device 0: " before its message; OK stays OK.
absl::Status InTask(const absl::Status& status, const program::Task& task);

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_ERROR_CONTEXT_H_
