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
#include "engine/error_context.h"

namespace colonnade::cpu {

// The Status of an exception: of oneDNN, of exhausted memory, or of anything else (Internal).
absl::Status StatusOf(const std::exception& error);

using engine::InTask;
using engine::WithContext;

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
