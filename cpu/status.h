// Where errors of oneDNN and of the C++ library become Status.
//
// Kernels may throw inside; every place where a library is entered from a lane or from Load goes through these functions.
// Thread safe.
#ifndef COLONNADE_CPU_STATUS_H_
#define COLONNADE_CPU_STATUS_H_

#include <exception>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "program/task.h"

namespace colonnade::cpu {

// The Status of an exception: of oneDNN, of exhausted memory, or of anything else (Internal).
absl::Status StatusOf(const std::exception& error);

// `status` with "task 17 (conv_forward of conv1) on device 0: " before its message.
absl::Status InTask(const absl::Status& status, const program::Task& task);

// `status` with `context` before its message.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

// What `body` returns, or the Status of what it throws. `body` returns absl::Status or absl::StatusOr<T>.
template <class Body>
auto CatchErrors(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    return StatusOf(error);
  }
}

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_STATUS_H_
