#include "cpu/status.h"

#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cpu/onednn.h"

namespace colonnade::cpu {

absl::Status StatusOf(const std::exception& error) {
  if (const auto* dnnl_error = dynamic_cast<const dnnl::error*>(&error)) {
    const std::string message = absl::StrCat("oneDNN: ", dnnl_error->what());
    switch (dnnl_error->status) {
      case dnnl_out_of_memory:
        return absl::ResourceExhaustedError(message);
      case dnnl_invalid_arguments:
        return absl::InvalidArgumentError(message);
      case dnnl_unimplemented:
        return absl::UnimplementedError(message);
      default:
        return absl::InternalError(message);
    }
  }
  const auto* system_error = dynamic_cast<const std::system_error*>(&error);
  if (system_error != nullptr && system_error->code() == std::errc::resource_unavailable_try_again) {
    return absl::ResourceExhaustedError(
        "no thread can be started; use fewer devices or threads, or allow more memory (ulimit -v) or processes (ulimit -u)");
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return absl::ResourceExhaustedError("out of memory");
  return absl::InternalError(error.what());
}

}  // namespace colonnade::cpu
