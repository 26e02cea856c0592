// RETURN_IF_ERROR and ASSIGN_OR_RETURN, for functions that return absl::Status or absl::StatusOr.
//
//   RETURN_IF_ERROR(Write(path, bytes));
//   ASSIGN_OR_RETURN(Plan plan, ReadPlan(path));      // a type with a comma in it: ASSIGN_OR_RETURN(auto map, …)
//
// Both return the error of their last argument from the enclosing function. ASSIGN_OR_RETURN is two statements, so it
// needs braces under an `if`.
#ifndef COLONNADE_BASE_STATUS_MACROS_H_
#define COLONNADE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define COLONNADE_JOIN_(a, b) a##b
#define COLONNADE_JOIN(a, b) COLONNADE_JOIN_(a, b)
#define COLONNADE_ASSIGN_OR_RETURN(result, target, ...) \
  auto result = (__VA_ARGS__);                          \
  if (!result.ok()) return std::move(result).status();  \
  target = *std::move(result)

#ifndef RETURN_IF_ERROR
#define RETURN_IF_ERROR(...)                                                 \
  do {                                                                       \
    if (absl::Status status_ = (__VA_ARGS__); !status_.ok()) return status_; \
  } while (false)
#endif
#ifndef ASSIGN_OR_RETURN
#define ASSIGN_OR_RETURN(target, ...) COLONNADE_ASSIGN_OR_RETURN(COLONNADE_JOIN(result_, __LINE__), target, __VA_ARGS__)
#endif

#endif  // COLONNADE_BASE_STATUS_MACROS_H_
